package fanout

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A request is divided among the fanouts that own the shards concerned: the one that
// was asked does its own part and has the others do theirs. See perform for what a part is.

// A job is what is to be done in several shards.
type job struct {
	kind wire.PeerRequest_Kind
	id   string   // of the viewer, or of the user whose policy it is
	said verdicts // of an application that decides; nil if none does
}

// A share is the part of a job that concerns one shard.
type share struct {
	number  int
	targets []string
	shard   *shard // nil if another fanout owns it

	// To be awaited: the revision of a record, and whether its owner had read that
	// revision before it was written.
	revision uint64
	lost     bool
}

// An errand is the part of a job that another fanout does.
type errand struct {
	to     string // the id of the peer
	shares []share
}

// A division says who does what. Shares are in the order of shards.
type division struct {
	here []share
	away []errand
}

// An outcome is what came of a job, or of a part of it.
type outcome struct {
	reply *reply
	// Of a survey: the targets that the viewer is not subscribed to yet, the size of
	// the answer, and how many targets the viewer has.
	added      []string
	size, held int
	// Of an inspection: the user, and how far each bucket is read.
	view  *View
	reads map[int]uint64
}

// sharesOf splits a request by shard.
func (f *Fanout) sharesOf(targets []string) []share {
	byShard := make(map[int][]string)
	for _, t := range targets {
		n := f.fabric.Shard(t)
		byShard[n] = append(byShard[n], t)
	}
	shares := make([]share, 0, len(byShard))
	for _, n := range slices.Sorted(maps.Keys(byShard)) {
		shares = append(shares, share{number: n, targets: byShard[n]})
	}
	return shares
}

// everyShard is a share of each shard of the fabric, without targets.
func (f *Fanout) everyShard() []share {
	shares := make([]share, f.fabric.Shards())
	for n := range shares {
		shares[n].number = n
	}
	return shares
}

// divide finds out who owns the shards. It fails if nobody is known to own one of
// them: an answer is whole or none.
func (f *Fanout) divide(shares []share) (division, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := division{here: make([]share, 0, len(shares))}
	for _, s := range shares {
		mine, peer := f.ownerLocked(s.number)
		switch {
		case mine != nil:
			s.shard = mine
			d.here = append(d.here, s)
		case peer != nil:
			d.send(peer.id, s)
		default:
			f.askPeers()
			return division{}, unavailable()
		}
	}
	return d, nil
}

func (d *division) send(to string, s share) {
	i := slices.IndexFunc(d.away, func(e errand) bool { return e.to == to })
	if i < 0 {
		i = len(d.away)
		d.away = append(d.away, errand{to: to})
	}
	d.away[i].shares = append(d.away[i].shares, s)
}

// withOthers adds an errand without shares to every peer that has none: it is asked
// too what it knows of the viewer.
func (f *Fanout) withOthers(d division) division {
	f.mu.Lock()
	defer f.mu.Unlock()
	away := slices.Clone(d.away)
	for _, p := range f.livingLocked() {
		if len(p.shards) > 0 && !slices.ContainsFunc(d.away, func(e errand) bool { return e.to == p.id }) {
			away = append(away, errand{to: p.id})
		}
	}
	return division{d.here, away}
}

func unavailable() *subjects.Error {
	return subjects.Errorf(subjects.CodeUnavailable, "the owner of a shard is starting, try again")
}

// do has a job done by all who are concerned, at the same time.
func (f *Fanout) do(ctx context.Context, j job, d division) (outcome, error) {
	if len(d.away) == 0 {
		return f.perform(ctx, j, d.here)
	}
	outcomes := make([]outcome, len(d.away)+1)
	var away errgroup.Group
	for i, e := range d.away {
		away.Go(func() (err error) {
			outcomes[i+1], err = f.call(ctx, j, e)
			if len(e.shares) == 0 {
				return nil // what is not known does not count
			}
			return err
		})
	}
	here, err := f.perform(ctx, j, d.here)
	if failed := away.Wait(); err == nil {
		err = failed
	}
	if err != nil {
		return outcome{}, err
	}
	outcomes[0] = here
	return together(outcomes), nil
}

// together is one outcome of several.
func together(outcomes []outcome) (all outcome) {
	var replies []*reply
	all.reads = make(map[int]uint64)
	for _, o := range outcomes {
		if o.reply != nil {
			replies = append(replies, o.reply)
		}
		all.added = append(all.added, o.added...)
		all.size += o.size
		all.held += o.held
		if o.view != nil {
			all.view = o.view
		}
		maps.Copy(all.reads, o.reads)
	}
	all.reply = merge(replies)
	return all
}
