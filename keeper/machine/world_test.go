package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A world is a shard with its log, its buckets, one keeper and some gateways, in
// virtual time. Everything happens at once when time comes to it.
type world struct {
	t        failer
	params   rollcall.Params
	now      rollcall.Micros
	log      []message
	lost     uint64 // sequences that the store gave out and forgot
	keeper   *Machine
	store    *store
	gateways map[string]*gateway
	ticked   rollcall.Micros
	views    []seenView
	left     []Departure
	told     []Control
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// seenView is a publication and when it was made.
type seenView struct {
	View
	at time.Duration
}

func newWorld(t failer, p rollcall.Params) *world {
	return &world{
		t: t, params: p, now: start, ticked: start, store: newStore(), keeper: New(p, 0), gateways: make(map[string]*gateway),
	}
}

// clock is the time since the beginning.
func (w *world) clock() time.Duration { return w.now.Sub(start) }

// edge starts a process of a gateway, in place of one that is there.
func (w *world) edge(id string) *gateway {
	g := &gateway{world: w, id: id, incarnation: 1, conns: make(map[uint64]*wire.Entry), renewed: w.now}
	if old := w.gateways[id]; old != nil {
		g.incarnation = old.incarnation + 1
	}
	w.gateways[id] = g
	g.say(&wire.Entry{Kind: wire.Kind_KIND_HELLO})
	return g
}

// append puts a message into the log; a keeper that is there applies it and
// writes and says what follows.
func (w *world) append(from Source, f *wire.Frame) {
	msg := message{at: w.now, seq: w.lost + uint64(len(w.log)) + 1, from: from, frame: f}
	w.log = append(w.log, msg)
	if w.keeper != nil {
		msg.applyTo(w.keeper)
		w.flush()
	}
}

func (w *world) flush() {
	if err := invariants(w.keeper); err != nil {
		w.t.Fatalf("at %v: %v", w.clock(), err)
	}
	c := w.keeper.Take()
	w.store.write(c, -1)
	for _, v := range c.Views {
		w.views = append(w.views, seenView{v, w.clock()})
	}
	w.left = append(w.left, c.Departures...)
	w.told = append(w.told, c.Controls...)
	for _, c := range c.Controls {
		if g := w.gateways[c.Edge]; g != nil && g.incarnation == c.Message.Incarnation && !g.cut {
			g.inbox = append(g.inbox, c.Message)
		}
	}
}

// checkpoint is written now and then.
func (w *world) checkpoint() { w.store.Checkpoint = w.keeper.Checkpoint() }

// killKeeper leaves the shard without a keeper: edges go on.
func (w *world) killKeeper() { w.keeper = nil }

// startKeeper takes the shard over and reads what was missed.
func (w *world) startKeeper() {
	w.keeper = Load(w.params, 0, w.store.copied())
	after := w.store.Checkpoint.GetSequence()
	for _, msg := range w.log {
		if msg.seq > after {
			msg.applyTo(w.keeper)
			w.flush()
		}
	}
}

// to lets time pass until so many seconds after the beginning: gateways answer and
// renew, the keeper ticks every sweep and whenever a deadline is due.
func (w *world) to(seconds float64) {
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	w.answer()
	for {
		next := end
		for _, g := range w.gateways {
			if !g.cut {
				next = min(next, g.renewed.Add(w.params.Renewal))
			}
		}
		if w.keeper != nil {
			next = min(next, w.ticked.Add(w.params.Sweep))
			if due, ok := w.keeper.NextDeadline(); ok {
				next = min(next, due)
			}
		}
		if next >= end {
			break
		}
		w.step(next)
	}
	w.now = max(w.now, end)
	w.answer()
}

func (w *world) step(next rollcall.Micros) {
	w.now = max(w.now, next)
	for _, id := range slices.Sorted(maps.Keys(w.gateways)) {
		if g := w.gateways[id]; !g.cut && g.renewed.Add(w.params.Renewal) <= w.now {
			g.renew()
		}
	}
	w.tickIfDue()
	w.answer()
}

func (w *world) tickIfDue() {
	if w.keeper == nil {
		return
	}
	due, ok := w.keeper.NextDeadline()
	if ok && due <= w.now || w.ticked.Add(w.params.Sweep) <= w.now {
		w.tick()
	}
}

func (w *world) tick() {
	w.ticked = w.now
	w.append(Source{Tick: true}, nil)
}

// outage is a store that is away: nothing is appended, time passes.
func (w *world) outage(d time.Duration) {
	w.now = w.now.Add(d)
	w.ticked = w.now
	for _, g := range w.gateways {
		g.renewed = max(g.renewed, w.now.Add(-w.params.Renewal)) // due at once
	}
}

func (w *world) answer() {
	for _, id := range slices.Sorted(maps.Keys(w.gateways)) {
		w.gateways[id].answer()
	}
}
