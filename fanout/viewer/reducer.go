package viewer

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Reducer turns answers and messages, in whatever order and however often they
// come, into what the viewer sees. It does no I/O and reads no clock; it is not
// safe for concurrent use. The zero value is not usable; call [NewReducer].
type Reducer struct {
	shards  map[int]*shard
	targets map[string]*entry // what is asked for
	offline string            // why nothing is known at all
	touched map[string]bool
	// takeovers counts the new owners of shards that messages told of.
	takeovers int
}

// An entry is what is known of one target.
type entry struct {
	shard   int // -1 until a view has told it
	view    subjects.View
	visible bool
	stamp   stamp // of the answer or message that the view came with
	at      time.Time
	// absent is where the shards stood when an answer left the target out, by
	// shard, because such an answer does not tell the target's. What was sent
	// before that is outdated.
	absent map[int]subjects.Position
	shown  State // as last returned by Changes
}

// A stamp orders what the owners of one shard say.
type stamp struct{ generation, seq uint64 }

func (s stamp) atMost(t stamp) bool {
	return s.generation < t.generation || s.generation == t.generation && s.seq <= t.seq
}

// outdates says that the target was left out of an answer after the position.
func (e *entry) outdates(p subjects.Position) bool {
	at, answered := e.absent[p.Shard]
	return answered && stamp{p.Generation, p.Seq}.atMost(stamp{at.Generation, at.Seq})
}

// NewReducer returns a reducer that asks for nothing.
func NewReducer() *Reducer {
	return &Reducer{shards: make(map[int]*shard), targets: make(map[string]*entry), touched: make(map[string]bool)}
}

// Want adds targets and returns those that are new.
func (r *Reducer) Want(targets ...string) (added []string) {
	for _, t := range targets {
		if r.targets[t] == nil {
			r.targets[t] = &entry{shard: -1}
			added = append(added, t)
		}
	}
	return added
}

// Unwant forgets targets.
func (r *Reducer) Unwant(targets ...string) {
	for _, t := range targets {
		delete(r.targets, t)
		delete(r.touched, t)
	}
}

// Wants says whether a target is asked for.
func (r *Reducer) Wants(target string) bool { return r.targets[target] != nil }

// Wanted is how many targets are asked for.
func (r *Reducer) Wanted() int { return len(r.targets) }

// Message applies a message of a stream.
func (r *Reducer) Message(m subjects.Message, now time.Time) {
	s := r.shard(m.Shard)
	if m.Generation < s.generation {
		return // from an owner that has lost the shard
	}
	if m.Generation > s.generation {
		r.takeovers++
	}
	if s.message(m) {
		r.touchShard(m.Shard)
	}
	for _, v := range m.Changes {
		if e := r.targets[v.Target]; e != nil && v.Version > e.view.Version && !e.outdates(m.Position) {
			r.learn(e, v, m.Position, now)
		}
	}
}

// Answer says what an answer is good for.
type Answer struct {
	// Asked is what the request named.
	Asked []string
	// Base lists the shards for which this is the first answer of a resync: it
	// stands for everything said before it.
	Base map[int]bool
	// Once marks the answer to a get. It tells nothing of shards in which nothing
	// is subscribed to.
	Once bool
}

// Reply applies the answer to a subscribe or get. It is false if the answer came
// from an owner that has lost its shard: ask again.
func (r *Reducer) Reply(reply subjects.Reply, a Answer, now time.Time) (fresh bool) {
	positions := make(map[int]subjects.Position, len(reply.Shards))
	present := make(map[string]bool)
	fresh = true
	for _, snapshot := range reply.Shards {
		s := r.shard(snapshot.Shard)
		if a.Once && !s.known {
			continue
		}
		if snapshot.Generation < s.generation {
			fresh = false
			continue
		}
		positions[snapshot.Shard] = snapshot.Position
		if s.answer(snapshot.Position, a.Base[snapshot.Shard], now) {
			r.touchShard(snapshot.Shard)
		}
		for _, v := range snapshot.Views {
			present[v.Target] = true
			if e := r.targets[v.Target]; e != nil && v.Version >= e.view.Version {
				r.learn(e, v, snapshot.Position, now)
			}
		}
	}
	for _, t := range a.Asked {
		if e := r.targets[t]; e != nil && !present[t] {
			r.absent(t, e, positions)
		}
	}
	return fresh
}

// absent drops a target that an answer leaves out, unless it has been told of
// since.
func (r *Reducer) absent(target string, e *entry, positions map[int]subjects.Position) {
	e.absent = positions
	p, answered := positions[e.shard]
	if !answered || !e.stamp.atMost(stamp{p.Generation, p.Seq}) {
		return
	}
	e.visible = false
	r.touched[target] = true
}

// Unsubscribed applies the answer to an unsubscribe of this client.
func (r *Reducer) Unsubscribed(reply subjects.Reply, now time.Time) {
	for _, snapshot := range reply.Shards {
		r.shard(snapshot.Shard).unsubscribed(snapshot.Position, now)
	}
}

// Refreshed applies the answer to a refresh. A shard that it does not mention
// knows nothing of the viewer any more.
func (r *Reducer) Refreshed(reply subjects.Reply, now time.Time) {
	mentioned := make(map[int]bool)
	for _, snapshot := range reply.Shards {
		mentioned[snapshot.Shard] = true
		s := r.shards[snapshot.Shard]
		if s == nil || !s.known || snapshot.Generation < s.generation {
			continue
		}
		if s.refreshed(snapshot.Position, now) {
			r.touchShard(snapshot.Shard)
		}
	}
	for n, s := range r.shards {
		if s.known && !mentioned[n] {
			s.lose(0)
		}
	}
}

// learn takes a view.
func (r *Reducer) learn(e *entry, v subjects.View, p subjects.Position, now time.Time) {
	e.shard, e.view, e.stamp, e.at = p.Shard, v, stamp{p.Generation, p.Seq}, now
	e.visible = v.Status != subjects.StatusWithdrawn
	r.touched[v.Target] = true
}

// SetOffline makes everything unknown for a reason; the empty reason ends that.
func (r *Reducer) SetOffline(reason string) {
	if r.offline == reason {
		return
	}
	r.offline = reason
	for t := range r.targets {
		r.touched[t] = true
	}
}

// Offline is why everything is unknown, empty if it is not.
func (r *Reducer) Offline() string { return r.offline }

// State is what is shown of a target; ok is false if nothing is known of it, which
// is not the same as offline.
func (r *Reducer) State(target string) (State, bool) {
	e := r.targets[target]
	if e == nil || !e.visible {
		return State{}, false
	}
	state := State{View: e.view, Received: e.at}
	switch s := r.shards[e.shard]; {
	case r.offline != "":
		state.Reason = r.offline
	case s != nil && s.feed.state == subjects.FeedStalled:
		state.Reason = s.feed.reason
	}
	if state.Reason != "" {
		state.View = subjects.View{Target: target, Status: rollcall.StatusUnknown, Version: e.view.Version}
	}
	return state, true
}

// Changes returns the targets that are shown differently since the last call.
func (r *Reducer) Changes(now time.Time) []Change {
	if len(r.touched) == 0 {
		return nil
	}
	var changes []Change
	for _, target := range slices.Sorted(maps.Keys(r.touched)) {
		e := r.targets[target]
		state, known := r.State(target)
		if !known {
			state.View = subjects.View{Target: target, Status: subjects.StatusWithdrawn, Version: e.view.Version}
		}
		if known && state.same(e.shown) || !known && !e.shown.known() {
			continue
		}
		e.shown = state
		changes = append(changes, Change{Target: target, State: state, At: now})
	}
	clear(r.touched)
	return changes
}

func (r *Reducer) shard(n int) *shard {
	s := r.shards[n]
	if s == nil {
		s = new(shard)
		r.shards[n] = s
	}
	return s
}

func (r *Reducer) touchShard(n int) {
	for t, e := range r.targets {
		if e.shard == n {
			r.touched[t] = true
		}
	}
}

// Members lists the targets that are, or may be, in one of the shards, those of a
// shard together; nil means all.
func (r *Reducer) Members(shards map[int]bool) []string {
	var targets []string
	for t, e := range r.targets {
		if shards == nil || e.shard < 0 || shards[e.shard] {
			targets = append(targets, t)
		}
	}
	slices.SortFunc(targets, func(a, b string) int {
		if d := r.targets[a].shard - r.targets[b].shard; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return targets
}
