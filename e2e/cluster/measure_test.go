//go:build cluster

package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// instants are when something that should go on and on has happened, by what it concerns.
type instants struct {
	mu  sync.Mutex
	all map[int][]time.Time
}

func (i *instants) add(what int, at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all == nil {
		i.all = make(map[int][]time.Time)
	}
	i.all[what] = append(i.all[what], at)
}

// longest is the longest time without, of anything that it concerns, between two instants.
func (i *instants) longest(from, to time.Time) (longest time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, all := range i.all {
		last := from
		for _, at := range append(all[:len(all):len(all)], to) {
			if at.Before(from) || at.After(to) {
				continue
			}
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// watchPulses notes the pulses of the keepers, whichever server they come through.
func watchPulses(t *testing.T, s *servers, names subjects.Names, issuer *identity.Issuer) *instants {
	t.Helper()
	pulses := new(instants)
	for n := range s.nodes {
		credential, err := issuer.Operator("pulses", time.Hour)
		nc := connect(t, s.nodes[n].url, credential, err, nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second))
		for shard := range names.Shards() {
			if _, err := nc.Subscribe(names.Pulse(shard), func(m *nats.Msg) {
				var p wire.Pulse
				if subjects.Decode(m.Data, &p) == nil {
					pulses.add(shard, time.Now())
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return pulses
}

// probe asks for one user of each shard again and again, through every server, and notes when it is answered
// whatever the status.
func probe(ctx context.Context, t *testing.T, s *servers, names subjects.Names, issuer *identity.Issuer) *instants {
	t.Helper()
	const every, patience = 200 * time.Millisecond, 700 * time.Millisecond
	answers := new(instants)
	for n := range s.nodes {
		credential, err := issuer.Viewer("prober", time.Hour)
		nc := connect(t, s.nodes[n].url, credential, err, nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second))
		for shard := range names.Shards() {
			target := 0
			for names.Shard(user(target)) != shard {
				target++
			}
			c, err := viewer.New(nc, viewer.Config{Viewer: "prober"})
			if err != nil {
				t.Fatal(err)
			}
			go c.Run(ctx)
			go func() {
				for retry.Pause(ctx, every) {
					asking, cancel := context.WithTimeout(ctx, patience)
					if _, err := c.Get(asking, user(target)); err == nil {
						answers.add(shard, time.Now())
					}
					cancel()
				}
			}()
		}
	}
	return answers
}

// unknown is for how long at most something was shown as unknown in these sights, to how many
// pairs of viewer and target, and the reason.
func unknown(sights []sight, end time.Time) (longest time.Duration, pairs int, reason string) {
	since := make(map[string]sight)
	seen := make(map[string]bool)
	over := func(s sight, at time.Time) {
		if d := at.Sub(s.at); d > longest {
			longest, reason = d, s.reason
		}
	}
	for _, s := range sights {
		began, was := since[s.target]
		switch {
		case s.status == rollcall.StatusUnknown && !was:
			since[s.target], seen[s.target] = s, true
		case s.status != rollcall.StatusUnknown && was:
			over(began, s.at)
			delete(since, s.target)
		}
	}
	for _, s := range since {
		over(s, end)
	}
	return longest, len(seen), reason
}
