package viewer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/subjects"
)

// A chancer is a client of a simulated fabric whose messages and answers take any
// order, get lost and come twice. It writes down what its reducer makes of them.
type chancer struct {
	*player
	rng    *rand.Rand
	now    int64
	shards [2]*simShard
	flight []vectorStep // messages and answers on their way
	steps  []vectorStep
	last   vectorSeen // at the last step
}

// A simShard is one shard's owner as far as one viewer sees it.
type simShard struct {
	subjects.Position
	ids     []string
	views   map[string]subjects.View // of those that exist
	watched map[string]bool
	count   uint64
}

const randomSteps = 45

func randomCase(t *testing.T, seed uint64) vectorCase {
	c := &chancer{player: newPlayer(t), rng: rand.New(rand.NewPCG(24, seed)), now: 1000}
	for n := range c.shards {
		ids := [][]string{{"ann", "bob", "cat"}, {"dan", "eve", "fay"}}[n]
		c.shards[n] = &simShard{ids: ids, views: make(map[string]subjects.View), watched: make(map[string]bool),
			Position: subjects.Position{Shard: n, Generation: 3, Seq: uint64(n), Feed: subjects.FeedLive}}
		for range 4 {
			c.shards[n].turn(c.rng)
		}
	}
	c.subscribe()
	for len(c.steps) < randomSteps {
		c.act()
	}
	end := &c.steps[len(c.steps)-1]
	end.States, end.Members = c.last.States, c.last.Members
	return vectorCase{Name: fmt.Sprintf("run %d", seed), Steps: c.steps}
}

// act does one thing, of those that move the story on most often.
func (c *chancer) act() {
	c.now += c.rng.Int64N(400)
	s := c.shards[c.rng.IntN(2)]
	if len(c.last.Lost) > 0 && c.rng.IntN(5) == 0 {
		c.resync()
	}
	switch roll := c.rng.IntN(100); {
	case roll < 46:
		c.arrive()
	case roll < 68:
		if v, ok := s.turn(c.rng); ok && s.watched[v.Target] {
			c.send(s, 1, v)
		}
	case roll < 71:
		c.send(s, 0) // nothing was lost
	case roll < 75:
		s.Feed, s.Reason = subjects.FeedStalled, fanout.ReasonKeeperSilent
		if c.rng.IntN(3) > 0 {
			s.Feed, s.Reason = subjects.FeedLive, ""
		}
		c.send(s, 1)
	case roll < 77:
		s.Generation, s.Seq = s.Generation+1, c.rng.Uint64N(3)
		c.send(s, 1)
	case roll < 80: // another client of this viewer
		if id := c.pick(s.ids); s.watched[id] {
			s.unwatch(id)
			c.send(s, 1)
		}
	case roll < 85:
		c.subscribe()
	case roll < 89:
		c.unsubscribe()
	case roll < 93:
		c.answer(vectorStep{Do: "refreshed"}, nil)
	case roll < 96:
		asked := c.some()
		c.answer(vectorStep{Do: "reply", Asked: asked, Once: true}, asked)
	case roll < 98:
		c.take(vectorStep{Do: "offline", Reason: []string{"disconnected", "", ""}[c.rng.IntN(3)]})
	case roll < 99:
		c.take(vectorStep{Do: []string{"lose", "forget"}[c.rng.IntN(2)], Shards: []int{s.Shard}})
	default:
		c.now += 2500
		c.take(vectorStep{Do: "wait"})
	}
}

// turn changes somebody of the shard; false if there is nothing to change.
func (s *simShard) turn(rng *rand.Rand) (subjects.View, bool) {
	id := s.ids[rng.IntN(len(s.ids))]
	s.count++
	v := subjects.View{Target: id, Version: s.Generation<<6 + s.count}
	_, exists := s.views[id]
	switch roll := rng.IntN(10); {
	case roll == 0 && exists:
		delete(s.views, id)
		v.Status = subjects.StatusWithdrawn
		return v, true
	case roll < 2:
		return v, false
	case roll < 5:
		v.Status = rollcall.StatusOffline
		v.LastSeenMinute = subjects.Minute(rng.IntN(2)) // known or not
	case roll < 6:
		v.Status, v.Availability = rollcall.StatusOnline, "dnd"
	default:
		v.Status, v.State = rollcall.StatusOnline, []string{"active", "idle"}[rng.IntN(2)]
	}
	s.views[id] = v
	return v, true
}

func (s *simShard) unwatch(id string) {
	delete(s.watched, id)
	s.Targets = len(s.watched)
}

func (s *simShard) snapshot(asked []string) subjects.ShardSnapshot {
	snapshot := subjects.ShardSnapshot{Position: s.Position}
	for _, id := range asked {
		if v, exists := s.views[id]; exists {
			snapshot.Views = append(snapshot.Views, v)
		}
	}
	return snapshot
}

// send puts a message on its way.
func (c *chancer) send(s *simShard, step uint64, changes ...subjects.View) {
	s.Seq += step
	c.flight = append(c.flight, vectorStep{Do: "message", Message: c.encoded(subjects.Message{Position: s.Position, Changes: changes})})
}

// answer puts an answer about targets on its way, as of now. It tells of the shards in
// which the viewer has targets.
func (c *chancer) answer(step vectorStep, asked []string) {
	var reply subjects.Reply
	for _, s := range c.shards {
		if snapshot := s.snapshot(asked); s.Targets > 0 || len(snapshot.Views) > 0 {
			reply.Shards = append(reply.Shards, snapshot)
		}
	}
	step.Reply = c.encoded(reply)
	c.flight = append(c.flight, step)
}

func (c *chancer) subscribe() {
	asked := c.some()
	c.take(vectorStep{Do: "want", Targets: asked})
	c.watch(asked)
	c.answer(vectorStep{Do: "reply", Asked: asked}, asked)
}

func (c *chancer) watch(asked []string) {
	for _, s := range c.shards {
		for _, id := range s.ids {
			if slices.Contains(asked, id) {
				s.watched[id] = true
			}
		}
		s.Targets = len(s.watched)
	}
}

// resync asks again for all that is, or may be, where something was lost.
func (c *chancer) resync() {
	if asked := c.last.Members; len(c.last.Lost) > 0 && len(asked) > 0 {
		c.watch(asked)
		c.answer(vectorStep{Do: "reply", Asked: asked, Base: c.last.Lost}, asked)
	}
}

func (c *chancer) unsubscribe() {
	if len(c.wanted) == 0 || len(c.leaving) > 0 {
		return
	}
	id := c.pick(slices.Sorted(maps.Keys(c.wanted)))
	c.take(vectorStep{Do: "leave", Targets: []string{id}})
	c.take(vectorStep{Do: "unwant", Targets: []string{id}})
	for _, s := range c.shards {
		if s.watched[id] {
			s.unwatch(id)
			c.send(s, 1)
		}
	}
	c.answer(vectorStep{Do: "unsubscribed"}, nil)
}

// arrive delivers something that is on its way, usually what was sent first.
func (c *chancer) arrive() {
	if len(c.flight) == 0 {
		return
	}
	i := 0
	if c.rng.IntN(4) == 0 {
		i = c.rng.IntN(len(c.flight))
	}
	step := c.flight[i]
	if c.rng.IntN(12) > 0 { // otherwise it comes again
		c.flight = slices.Delete(c.flight, i, i+1)
	}
	if step.Do == "message" && c.rng.IntN(14) == 0 {
		return // lost, or only late
	}
	c.take(step)
	if step.Do == "unsubscribed" && len(c.leaving) > 0 {
		c.take(vectorStep{Do: "done"})
	}
}

// take does a step and writes it down.
func (c *chancer) take(s vectorStep) {
	s.Now = c.now
	c.last = c.play(s)
	s.vectorSeen = c.last
	if len(c.steps)%statesEvery > 0 {
		s.States, s.Members = nil, nil
	}
	c.steps = append(c.steps, s)
}

func (c *chancer) pick(ids []string) string { return ids[c.rng.IntN(len(ids))] }

// some are one to four targets, in their order.
func (c *chancer) some() []string {
	all := slices.Concat(c.shards[0].ids, c.shards[1].ids)
	n := 1 + c.rng.IntN(4)
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Sorted(slices.Values(all[:n]))
}

func (c *chancer) encoded(v any) json.RawMessage {
	c.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}
