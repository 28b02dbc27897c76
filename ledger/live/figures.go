package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/subjects"
)

// Recently is how long ago a user may have been active and still counts as active now.
const Recently = 5 * time.Minute

const (
	// fresh is how long figures are not computed again.
	fresh = time.Second
	// askTimeout is how long shards may take that are busy reading or storing.
	askTimeout = 5 * time.Second
)

// figures are what a ledger knows at the moment of the shards that it keeps. Their
// connections are online whose edge holds them and spoke within the lease TTL.
type figures struct {
	subjects.Stats
	behind   uint64 // messages that are stored and were not read yet
	sessions int    // that are open or may still go on
}

// figures of the books, computed once a while at most.
func (c *clerk) figures() figures {
	if now := time.Now(); c.knownAt.IsZero() || now.Sub(c.knownAt) >= fresh {
		c.known, c.knownAt = c.books.figures(c.number, c.fabric.Params.LeaseTTL), now
	}
	return c.known
}

func (k *books) figures(shard int, ttl time.Duration) figures {
	f := figures{behind: k.behind, sessions: k.builder.Sessions()}
	if !k.opened {
		return f
	}
	f.Shards, f.ShardsTotal = []int{shard}, k.shards
	f.AsOf, f.Definition = time.UnixMilli(k.time).UTC(), k.definition.Version
	f.Online, f.Active = k.users(ttl)
	k.publish()
	for _, b := range k.boards {
		date := b.Date(k.time)
		today := subjects.StatsToday{Zone: b.name, Date: date.String(), Measures: make(map[string]subjects.StatsCount)}
		for _, m := range measures(k.definition) {
			day := b.Day(m, date)
			today.Measures[string(m)] = subjects.StatsCount{Users: day.Users, Seconds: subjects.Seconds(day.Total)}
		}
		f.Today = append(f.Today, today)
	}
	return f
}

func measures(d ledger.Definition) []ledger.Measure {
	all := []ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active}
	for _, label := range d.Labels {
		all = append(all, ledger.Measure(label))
	}
	return all
}

// users counts who is online and who is active now.
func (k *books) users(ttl time.Duration) (online, active int) {
	const isOnline, isActive = 1, 2
	is := make(map[string]uint8)
	for g := range k.decoder.Glances() {
		if g.Open && k.time-g.Heard <= ttl.Milliseconds() {
			is[g.User] |= isOnline
		}
		if g.Input > 0 && k.time-g.Input <= Recently.Milliseconds() {
			is[g.User] |= isActive
		}
	}
	for _, what := range is {
		online += int(what & isOnline)
		active += int(what & isActive >> 1)
	}
	return online, active
}

// Stats asks every shard that is kept here.
func (l *Ledger) Stats(ctx context.Context) subjects.Stats {
	stats, _ := l.ask(ctx)
	return stats
}

// ask also says how much was not read yet, and how many sessions are known.
func (l *Ledger) ask(ctx context.Context) (subjects.Stats, figures) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	shards := l.all()
	answers := make([]figures, len(shards))
	var asking sync.WaitGroup
	for i, s := range shards {
		asking.Go(func() { answers[i] = s.ask(ctx) })
	}
	asking.Wait()
	var all []subjects.Stats
	var sum figures
	for _, f := range answers {
		if len(f.Shards) > 0 {
			all = append(all, f.Stats)
			sum.behind += f.behind
			sum.sessions += f.sessions
		}
	}
	stats, err := subjects.MergeStats(all...)
	if err != nil {
		panic(fmt.Sprint("live: shards of one ledger: ", err))
	}
	if len(all) == 0 {
		stats.ShardsTotal, stats.Definition = l.total(), l.cfg.Definition.Version
	}
	return stats, sum
}

// ask is for the figures of a shard; none if nobody keeps it here, or has read nothing.
func (s *shard) ask(ctx context.Context) (f figures) {
	if !s.keeping.Load() {
		return f
	}
	answer := make(chan figures, 1)
	select {
	case s.asks <- answer:
	case <-ctx.Done():
		return f
	}
	select {
	case f = <-answer:
	case <-ctx.Done():
	}
	return f
}
