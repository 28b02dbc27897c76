package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// policyAttempts is how often a change is tried again that another one overtook.
const policyAttempts = 10

// performPolicy carries out an operation on a user's policy. Its answer comes when the
// change is stored and what viewers are told follows it.
func (f *Fanout) performPolicy(ctx context.Context, op subjects.PolicyOp, user string, body []byte) ([]byte, error) {
	request, err := subjects.DecodePolicyRequest(op, body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	data, err := f.amend(ctx, op, user, request)
	if err != nil {
		return nil, asRefusal(err)
	}
	return data, nil
}

// answerTo is the document that answers an operation. What the server would not carry
// is not stored either: nobody could read it.
func (f *Fanout) answerTo(user string, d dossier) ([]byte, error) {
	data, err := json.Marshal(d.document(user, rollcall.MicrosOf(time.Now())))
	if limit := int(f.nc.MaxPayload()); err == nil && len(data) > limit {
		err = subjects.Errorf(subjects.CodeTooLarge, "the policy takes %d bytes, the limit is %d", len(data), limit)
	}
	return data, err
}

// asRefusal turns a failure of the store into a refusal.
func asRefusal(err error) error {
	if errors.As(err, new(*subjects.Error)) {
		return err
	}
	if errors.Is(err, subjects.ErrMalformed) {
		return fmt.Errorf("%w (%w)", subjects.Errorf(subjects.CodeInternal, "what is stored of the policy is damaged; forget begins anew"), err)
	}
	return fmt.Errorf("%w (%w)", subjects.Errorf(subjects.CodeUnavailable, "the policy could not be stored, try again"), err)
}

// amend reads, changes and writes what is stored of a user's policy, until nobody
// else changed it meanwhile. It returns the answer when the owners of the shards
// concerned know of it.
func (f *Fanout) amend(ctx context.Context, op subjects.PolicyOp, user string, r subjects.PolicyRequest) ([]byte, error) {
	home := f.fabric.Shard(user)
	concerned := []share{{number: home}}
	regroups := op == subjects.PolicyJoin || op == subjects.PolicyLeave || op == subjects.PolicyForget
	if regroups {
		concerned = f.everyShard()
	}
	cabinet := f.cabinet(home)
	for range policyAttempts {
		d, err := f.divide(concerned)
		if err != nil {
			return nil, err
		}
		old, revision, err := cabinet.policy(ctx, user)
		damaged := errors.Is(err, subjects.ErrMalformed)
		if err != nil && !(damaged && op == subjects.PolicyForget) {
			return nil, err
		}
		groups, _, err := cabinet.groups(ctx, user)
		if err != nil && !(errors.Is(err, subjects.ErrMalformed) && op == subjects.PolicyForget) {
			return nil, err
		}
		file := dossier{old, groups}
		if op == subjects.PolicyGet {
			return f.answerTo(user, file)
		}
		before, err := f.do(ctx, job{kind: wire.PeerRequest_KIND_INSPECT, id: user}, d)
		if err != nil {
			return nil, err
		}
		changed, err := file.amend(op, r, before.view, rollcall.MicrosOf(time.Now()))
		if err != nil {
			return nil, err
		}
		answer, err := f.answerTo(user, changed)
		if err != nil {
			return nil, err
		}
		revision, wrote := revision, damaged || !proto.Equal(orEmpty(old), orEmpty(changed.policy))
		if wrote {
			revision, err = cabinet.put(ctx, subjects.KeyPolicy(user), messageOf(changed.policy), revision)
		}
		stored := slices.Clone(concerned)
		for i := range stored {
			if stored[i].number == home {
				stored[i].holds(revision, wrote, before.reads[home])
			}
		}
		if err == nil && regroups {
			err = f.putGroups(ctx, user, changed.groups, stored, before.reads)
		}
		if err == nil {
			err = f.await(ctx, user, stored)
		}
		if !overtaken(err) {
			return answer, err
		}
	}
	return nil, errors.New("fanout: overtaken by other changes again and again")
}

// putGroups writes the groups of a user to every shard, because those of a viewer
// count where its targets live. Repeating an operation repairs one that failed
// half-way.
func (f *Fanout) putGroups(ctx context.Context, user string, groups []string, shares []share, reads map[int]uint64) error {
	writing, ctx := errgroup.WithContext(ctx)
	for i := range shares {
		s := &shares[i]
		writing.Go(func() error {
			revision, wrote, err := putGroupsIn(ctx, f.cabinet(s.number), user, groups)
			s.holds(revision, wrote, reads[s.number])
			return err
		})
	}
	return writing.Wait()
}

func putGroupsIn(ctx context.Context, c cabinet, user string, groups []string) (revision uint64, wrote bool, err error) {
	found, revision, err := c.groups(ctx, user)
	damaged := errors.Is(err, subjects.ErrMalformed)
	switch {
	case err != nil && !damaged, !damaged && slices.Equal(found, groups):
		return revision, false, err
	case len(groups) == 0:
		revision, err = c.put(ctx, subjects.KeyGroups(user), nil, revision)
	default:
		revision, err = c.put(ctx, subjects.KeyGroups(user), &wire.Groups{Groups: groups}, revision)
	}
	return revision, true, err
}

// holds takes note of a record that the shard holds now and that viewers must follow.
// read is how far its owner had read before: if the store gives a revision again, it
// has lost what was read.
func (s *share) holds(revision uint64, wrote bool, read uint64) {
	s.revision = max(s.revision, revision)
	s.lost = s.lost || wrote && revision <= read
}

// awaitPause is how long it takes until the owner of a shard is looked for again.
const awaitPause = 50 * time.Millisecond

// await waits until the owner of each shard, whoever that is by then, has read what the
// shard holds. Also of a change that was there already: whoever made it may have been
// told that it is not known whether it is in effect.
func (f *Fanout) await(ctx context.Context, user string, shares []share) error {
	for {
		d, err := f.divide(shares)
		if err == nil {
			_, err = f.do(ctx, job{kind: wire.PeerRequest_KIND_AWAIT, id: user}, d)
		}
		if !errors.Is(err, unavailable()) {
			return err
		}
		for i := range shares {
			shares[i].lost = false // that was said, or the owner is another one
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return err
		}
	}
}

// messageOf keeps a missing policy from becoming an interface that is not nil.
func messageOf(p *wire.Policy) proto.Message {
	if p == nil {
		return nil
	}
	return p
}

func orEmpty(p *wire.Policy) *wire.Policy {
	if p == nil {
		return new(wire.Policy)
	}
	return p
}
