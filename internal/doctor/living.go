package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// keepers listens to the pulse of every shard.
func (e *examination) keepers(ctx context.Context) (findings []Finding) {
	type seen struct {
		generations map[uint64]bool
		behind      time.Duration
	}
	var mu sync.Mutex
	heard := make(map[int]*seen)
	for shard := range e.fabric.Shards() {
		sub, err := e.nc.Subscribe(e.fabric.Pulse(shard), func(m *nats.Msg) {
			var p wire.Pulse
			if subjects.Decode(m.Data, &p) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if heard[shard] == nil {
				heard[shard] = &seen{generations: make(map[uint64]bool)}
			}
			heard[shard].generations[p.Generation] = true
			heard[shard].behind = time.Since(rollcall.Micros(p.Now).Time())
		})
		if err != nil {
			return []Finding{finding("keepers", Note, "pulses cannot be heard: %v", err)}
		}
		defer sub.Unsubscribe()
	}
	// Every keeper's tick goes out once in a sweep, and twice in an outage.
	for wait := e.fabric.Params.Outage; wait > 0; wait -= 100 * time.Millisecond {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, 100*time.Millisecond)):
		}
		mu.Lock()
		all := len(heard) == e.fabric.Shards()
		mu.Unlock()
		if all && wait < e.fabric.Params.Outage-e.fabric.Params.Sweep {
			break // long enough to hear two owners of one shard
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var silent []string
	for shard := range e.fabric.Shards() {
		switch s := heard[shard]; {
		case s == nil:
			silent = append(silent, fmt.Sprint(shard))
		case len(s.generations) > 1:
			findings = append(findings, finding("keepers", Warning, "shard %d has just changed its keeper, or has two", shard))
		}
	}
	if len(silent) > 0 {
		return append(findings, finding("keepers", Problem, "no keeper has been heard for %s of shards %s: nobody goes offline there, and viewers see unknown",
			e.fabric.Params.Outage, join(silent)))
	}
	if len(findings) == 0 {
		findings = append(findings, finding("keepers", OK, "every shard has one"))
	}
	return findings
}

// viewer is in whose name fanouts are asked.
const viewer = "rollcall-doctor"

// fanouts asks about a user of every shard, as a viewer would.
func (e *examination) fanouts(ctx context.Context) (findings []Finding) {
	asked := time.Now()
	reply, err := e.get(ctx, e.someoneInEveryShard())
	took := time.Since(asked)
	if err != nil {
		return []Finding{finding("fanouts", Problem, "%v", err)}
	}
	for _, shard := range reply.Shards {
		if shard.Feed != subjects.FeedLive {
			findings = append(findings, finding("fanouts", Problem, "viewers see unknown in shard %d: %s", shard.Shard, shard.Reason))
		}
	}
	if len(reply.Shards) != e.fabric.Shards() {
		findings = append(findings, finding("fanouts", Problem, "an answer is about %d of %s", len(reply.Shards), count(e.fabric.Shards(), "shard")))
	}
	if len(findings) == 0 {
		findings = append(findings, finding("fanouts", OK, "every shard is shown live, asked and answered within %s", round(took)))
	}
	return findings
}

func (e *examination) get(ctx context.Context, targets []string) (reply subjects.Reply, err error) {
	body, err := json.Marshal(subjects.Request{Targets: targets})
	if err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	m, err := e.nc.RequestWithContext(ctx, e.fabric.Request(subjects.OpGet, viewer), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return reply, errors.New("nobody answers viewers: no fanout is running")
	case err != nil:
		return reply, fmt.Errorf("no answer to a viewer: %w", err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return reply, fmt.Errorf("a viewer is answered %s: %s", code, m.Header.Get(micro.ErrorHeader))
	}
	return subjects.DecodeReply(m.Data)
}

// someoneInEveryShard makes up users; who exists does not matter.
func (e *examination) someoneInEveryShard() (users []string) {
	met := make(map[int]bool)
	for i := 0; len(met) < e.fabric.Shards(); i++ {
		user := fmt.Sprintf("%s-%d", viewer, i)
		if shard := e.fabric.Shard(user); !met[shard] {
			met[shard] = true
			users = append(users, user)
		}
	}
	return users
}

// edges looks at the leases of all shards.
func (e *examination) edges(ctx context.Context) {
	alive, over := make(map[string]time.Duration), make(map[string]time.Duration)
	for _, s := range e.infos {
		if s.leases {
			if err := e.leases(ctx, s, alive, over); err != nil {
				e.say("edges", Note, "leases in %s: %v", s.name(), err)
			}
		}
	}
	var names []string
	for id, age := range over {
		names = append(names, fmt.Sprintf("%s (renewed %s ago)", id, round(age)))
	}
	slices.Sort(names)
	oldest := time.Duration(0)
	for _, age := range alive {
		oldest = max(oldest, age)
	}
	switch {
	case len(over) > 0:
		e.say("edges", Problem, "leases are over and have not been ended: %s", some(names))
	case len(alive) == 0:
		e.say("edges", Note, "no edge has a lease: nobody is connected")
	default:
		e.say("edges", OK, "%s, the oldest renewal %s ago", count(len(alive), "edge"), round(oldest))
	}
}

// leases reads how long ago the edges of a shard renewed theirs.
func (e *examination) leases(ctx context.Context, s stream, alive, over map[string]time.Duration) error {
	kv, err := e.js.KeyValue(ctx, s.bucket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	w, err := kv.Watch(ctx, subjects.KindEdge+".>", jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer w.Stop()
	// The keeper looks once in a sweep, and may be late by the outage that it bears.
	limit := e.fabric.Params.LeaseTTL + e.fabric.Params.Sweep + e.fabric.Params.Outage
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry := <-w.Updates():
			if entry == nil {
				return nil
			}
			var record wire.EdgeRecord
			_, id, err := subjects.ParseKey(entry.Key())
			if err == nil {
				err = subjects.Decode(entry.Value(), &record)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", entry.Key(), err)
			}
			age := s.now().Sub(rollcall.Micros(record.Renewed).Time())
			if age > limit {
				over[id] = max(over[id], age)
			} else {
				alive[id] = max(alive[id], age)
			}
		}
	}
}
