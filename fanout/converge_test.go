package fanout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A world is boards and clients with a hostile network between them, without NATS:
// messages get lost, repeated and reordered, answers come late or never, owners
// crash, policies change, and two clients share one viewer id. In some worlds an
// application decides who may know what, and falls silent at times.
type world struct {
	t      *rapid.T
	now    time.Time
	names  subjects.Names
	truth  *records
	app    *app // nil if users' policies decide
	boards []*board
	silent bool // no pulses
	tabs   []*tab
	all    []string
}

// A tab is one client.
type tab struct {
	reducer  *viewer.Reducer
	wanted   map[string]bool
	inbox    []subjects.Message
	answer   func() // waits to be delivered; one request at a time
	versions map[string]uint64
	left     func()
	whole    bool // a watch was not answered: resync everything
}

// An app is an application that decides, for the only viewer there is.
type app struct {
	says   verdicts
	silent bool
}

func (a *app) verdicts(targets []string) verdicts {
	if a == nil {
		return nil
	}
	said := make(verdicts)
	for _, t := range targets {
		if said[t] = a.says[t]; a.silent {
			said[t] = wire.Granularity_GRANULARITY_UNSPECIFIED
		}
	}
	return said
}

const outage = 15 * time.Second

func newWorld(t *rapid.T) *world {
	names, err := subjects.New(subjects.DefaultPrefix, 2)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, now: time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), names: names, truth: newRecords(),
		all: []string{"a1", "b1", "c1", "x1", "x2", "x3", alice},
	}
	if rapid.Bool().Draw(t, "an application decides") {
		w.app = &app{says: make(verdicts)}
		for _, user := range w.all {
			w.app.says[user] = wire.Granularity_GRANULARITY_EXACT
		}
	}
	for shard := range names.Shards() {
		w.boards = append(w.boards, w.board(shard, 100))
	}
	for range 2 {
		w.tabs = append(w.tabs, &tab{
			reducer: viewer.NewReducer(), wanted: make(map[string]bool), versions: make(map[string]uint64), left: func() {},
		})
	}
	return w
}

func (w *world) board(shard int, generation uint64) *board {
	b := newBoard(boardConfig{
		shard: shard, generation: generation, defaults: Open, asks: w.app != nil, window: DefaultWindow,
		ttl: DefaultInterestTTL, sightTTL: DefaultSightTTL, outage: outage, maxPayload: 1 << 20,
	}, w.now)
	for user, v := range w.truth.views {
		if w.names.Shard(user) == shard {
			b.apply(viewOf(user, &v), w.now)
		}
	}
	for user, p := range w.truth.policies {
		if w.names.Shard(user) == shard {
			b.apply(change{user: user, kind: subjects.KindPolicy, policy: &p}, w.now)
		}
	}
	for user, groups := range w.truth.groups {
		b.apply(change{user: user, kind: subjects.KindGroups, groups: &groups}, w.now)
	}
	b.loaded(w.now)
	return b
}

// flush publishes what is due to both tabs.
func (w *world) flush() {
	for _, b := range w.boards {
		messages, _ := b.flush(w.now, batch)
		for _, q := range b.questions {
			b.answered(q.viewer, w.app.verdicts(q.targets), w.now)
		}
		b.questions = nil
		for _, m := range messages {
			decoded, err := subjects.DecodeMessage(m.data)
			if err != nil {
				w.t.Fatalf("%v in %s", err, m.data)
			}
			for _, tab := range w.tabs {
				tab.inbox = append(tab.inbox, decoded)
			}
		}
	}
}

// pass lets time pass in steps, as the timers of a shard would.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(d, 100*time.Millisecond))
		if !w.silent {
			for _, b := range w.boards {
				b.pulse(1, 0, w.now)
			}
		}
		w.flush()
	}
}

// request carries out an operation at the boards; the answer is delivered later.
func (w *world) request(tab *tab, targets []string, do func(*board, []byte, []string) []byte, deliver func(subjects.Reply)) {
	if tab.answer != nil {
		return
	}
	byShard := make(map[int][]string)
	for _, t := range targets {
		byShard[w.names.Shard(t)] = append(byShard[w.names.Shard(t)], t)
	}
	r := newReply()
	for shard, b := range w.boards {
		if part := byShard[shard]; part != nil {
			r.add(shard, func(data []byte) []byte { return do(b, data, part) })
		}
	}
	data, err := r.end(1 << 20)
	if err != nil {
		w.t.Fatal(err)
	}
	reply, err := subjects.DecodeReply(data)
	if err != nil {
		w.t.Fatalf("%v in %s", err, data)
	}
	tab.answer = func() { deliver(reply) }
}

const alice = "alice"

func (w *world) subscribe(tab *tab, targets []string, base func(subjects.Reply) map[int]bool) {
	w.request(tab, targets, func(b *board, data []byte, part []string) []byte {
		return b.subscribe(data, alice, b.plan(alice, part, w.now), w.app.verdicts(part), w.now)
	}, func(reply subjects.Reply) {
		if !tab.reducer.Reply(reply, viewer.Answer{Asked: targets, Base: base(reply)}, w.now) {
			tab.whole = true // from a former owner: ask again
		}
	})
}

func noBase(subjects.Reply) map[int]bool { return nil }

func (w *world) watch(tab *tab, targets []string) {
	if tab.answer != nil {
		return
	}
	for _, t := range targets {
		tab.wanted[t] = true
	}
	tab.reducer.Want(targets...)
	w.subscribe(tab, targets, noBase)
}

func (w *world) unwatch(tab *tab, targets []string) {
	if tab.answer != nil {
		return
	}
	left := tab.reducer.Leave(targets...)
	tab.reducer.Unwant(targets...)
	for _, t := range targets {
		delete(tab.wanted, t)
		delete(tab.versions, t)
	}
	w.request(tab, targets, func(b *board, data []byte, part []string) []byte {
		b.unsubscribe(alice, part, false, w.now)
		return b.stand(data, alice, w.now)
	}, func(reply subjects.Reply) { tab.reducer.Unsubscribed(reply, w.now) })
	deliver := tab.answer
	tab.answer, tab.left = func() { deliver() }, left
}

func (w *world) refresh(tab *tab) {
	if tab.answer != nil {
		return
	}
	r := newReply()
	for shard, b := range w.boards {
		r.addKnown(shard, func(data []byte) ([]byte, bool) {
			out, _, known := b.refresh(data, alice, w.now)
			return out, known
		})
	}
	data, _ := r.end(1 << 20)
	reply, err := subjects.DecodeReply(data)
	if err != nil {
		w.t.Fatal(err)
	}
	tab.answer = func() { tab.reducer.Refreshed(reply, w.now) }
}

// resync is what a client does when something may be lost.
func (w *world) resync(tab *tab, whole bool) {
	lost := tab.reducer.Lost(w.now)
	if tab.answer != nil || len(lost) == 0 && !whole {
		return
	}
	if whole {
		tab.reducer.LoseAll()
		lost = nil
	}
	targets := tab.reducer.Members(lost)
	if len(targets) == 0 {
		tab.reducer.Forget(tab.reducer.Lost(w.now))
		return
	}
	w.subscribe(tab, targets, func(reply subjects.Reply) map[int]bool {
		base := make(map[int]bool)
		for _, s := range reply.Shards {
			base[s.Shard] = lost == nil || lost[s.Shard]
		}
		return base
	})
}

// take delivers the answer that waits, if any, or loses it.
func (w *world) take(tab *tab, lost bool) {
	if tab.answer == nil {
		return
	}
	if lost {
		tab.whole = true
	} else {
		tab.answer()
	}
	tab.left()
	tab.answer, tab.left = nil, func() {}
	w.check(tab)
}

func (w *world) deliver(tab *tab, m subjects.Message) {
	tab.reducer.Message(m, w.now)
	w.check(tab)
}

// check holds versions to growing.
func (w *world) check(tab *tab) {
	tab.reducer.Changes(time.Time{})
	for t := range tab.wanted {
		state, ok := tab.reducer.State(t)
		if !ok {
			continue
		}
		if state.View.Version < tab.versions[t] {
			w.t.Fatalf("version of %s went back from %d to %d", t, tab.versions[t], state.View.Version)
		}
		tab.versions[t] = state.View.Version
	}
}

// takeOver replaces the owner of a shard.
func (w *world) takeOver(shard int) {
	old := w.boards[shard]
	b := w.board(shard, rollcall.NextGeneration(old.generation, w.now))
	for _, s := range old.streams {
		parts := make(map[int][]string)
		for id, watch := range s.watches {
			parts[int(watch.part)] = append(parts[int(watch.part)], id)
		}
		for n, targets := range parts {
			b.restore(s.viewer, n, targets, w.now, w.now)
		}
	}
	b.announceAll(w.now)
	w.boards[shard] = b
}

func (w *world) set(user string, v *View) {
	w.truth.apply(viewOf(user, v))
	w.boards[w.names.Shard(user)].apply(viewOf(user, v), w.now)
}

// amend changes a policy as the service does.
func (w *world) amend(op subjects.PolicyOp, user string, r subjects.PolicyRequest) {
	old := dossier{groups: w.truth.groups[user]}
	if data, exists := w.truth.policies[user]; exists {
		old.policy, _ = decodePolicy(data)
	}
	changed, err := old.amend(op, r, w.truth.subject(user).view, rollcall.MicrosOf(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	policy := change{user: user, kind: subjects.KindPolicy}
	if changed.policy != nil {
		data, err := subjects.Encode(changed.policy)
		if err != nil {
			w.t.Fatal(err)
		}
		policy.policy = &data
	}
	groups := change{user: user, kind: subjects.KindGroups}
	if len(changed.groups) > 0 {
		groups.groups = &changed.groups
	}
	w.truth.apply(policy)
	w.boards[w.names.Shard(user)].apply(policy, w.now)
	w.truth.apply(groups)
	for _, b := range w.boards {
		b.apply(groups, w.now)
	}
}

// drawPolicy draws an operation that changes what viewer sees of somebody.
func drawPolicy(t *rapid.T, viewer string, now time.Time) (subjects.PolicyOp, subjects.PolicyRequest) {
	op := rapid.SampledFrom(subjects.PolicyOps[1:]).Draw(t, "op")
	granularity := func(label string) *rollcall.Granularity {
		return new(rollcall.Granularity(rapid.IntRange(0, 3).Draw(t, label)))
	}
	r := subjects.PolicyRequest{Users: []string{viewer}, Groups: []string{rapid.SampledFrom([]string{"blue", "green"}).Draw(t, "group")}}
	switch op {
	case subjects.PolicySet:
		switch rapid.IntRange(0, 3).Draw(t, "relation") {
		case 0:
			r.Contact = granularity("contact")
		case 1:
			r.Member = granularity("member")
		case 2:
			r.Everyone = granularity("everyone")
		case 3:
			r.Default = []string{subjects.RelationEveryone}
		}
	case subjects.PolicyAllow:
		r.Granularity = granularity("granularity")
	case subjects.PolicyStatus:
		r.Status = &subjects.ManualStatus{
			Availability: rollcall.Availability(rapid.IntRange(0, 3).Draw(t, "availability")),
			Text:         rapid.SampledFrom([]string{"", "lunch"}).Draw(t, "text"), Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
		}
		if s := rapid.IntRange(0, 200).Draw(t, "seconds"); s > 0 {
			r.Status.Until = now.Add(time.Duration(s) * time.Second)
		}
	}
	return op, r
}

// settle lets everything arrive and the clients repair what they noticed.
func (w *world) settle() {
	w.silent = false
	if w.app != nil {
		w.app.silent = false
	}
	for range 12 {
		w.pass(4 * time.Second)
		for _, tab := range w.tabs {
			w.take(tab, false)
			for _, m := range tab.inbox {
				w.deliver(tab, m)
			}
			tab.inbox = nil
			w.resync(tab, tab.whole)
			tab.whole = false
			w.take(tab, false)
			w.refresh(tab)
			w.take(tab, false)
		}
	}
}

func (w *world) checkTruth() {
	for i, tab := range w.tabs {
		for _, t := range w.all {
			state, ok := tab.reducer.State(t)
			got := fmt.Sprintf("%+v", state.View)
			want := look{}
			if tab.wanted[t] {
				by := beholder{id: alice, groups: w.truth.groups[alice], asked: w.app != nil, verdict: w.app.verdicts(w.all)[t]}
				want = see(w.truth.subject(t), by, Open, rollcall.MicrosOf(w.now))
			}
			// A view that changed and changed back unseen was observed when it was told.
			if seen := state.View.ObservedAtMinute; !seen.IsZero() && seen < want.observed {
				want.observed = seen
			}
			expected := fmt.Sprintf("%+v", want.view(t, state.View.Version))
			if ok != want.visible() || ok && (got != expected || state.Reason != "") {
				w.t.Fatalf("tab %d, %s: shown %v %s %s, truth %v %s", i, t, ok, got, state.Reason, want.visible(), expected)
			}
		}
	}
}

func TestClientsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		anyTab := rapid.SampledFrom(w.tabs)
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(w.all), 1, len(w.all), rapid.ID[string])
		act := func(name string, f func()) func(*rapid.T) { return func(*rapid.T) { f() } }
		draw := func(g *rapid.Generator[int], name string) int { return g.Draw(t, name) }
		t.Repeat(map[string]func(*rapid.T){
			"change": act("change", func() {
				v := View{State: rapid.SampledFrom([]rollcall.State{rollcall.Offline, rollcall.Idle, rollcall.Active}).Draw(t, "state"), Observed: rollcall.MicrosOf(w.now)}
				if v.State == rollcall.Offline {
					v.Seen = v.Observed.Add(-time.Duration(draw(rapid.IntRange(0, 30), "hours")) * time.Hour)
				}
				w.set(rapid.SampledFrom(w.all).Draw(t, "user"), &v)
			}),
			"policy": act("policy", func() {
				user := rapid.SampledFrom(w.all).Draw(t, "user")
				op, r := drawPolicy(t, alice, w.now)
				w.amend(op, user, r)
			}),
			"application": act("application", func() {
				if w.app == nil {
					return
				}
				user := rapid.SampledFrom(w.all).Draw(t, "user")
				w.app.says[user] = wire.Granularity(rapid.IntRange(1, 4).Draw(t, "verdict"))
				w.app.silent = rapid.IntRange(0, 3).Draw(t, "silent") == 0
				for _, b := range w.boards {
					b.doubt("", user, w.now)
				}
			}),
			"delete":    act("delete", func() { w.set(rapid.SampledFrom(w.all).Draw(t, "user"), nil) }),
			"watch":     act("watch", func() { w.watch(anyTab.Draw(t, "tab"), some.Draw(t, "targets")) }),
			"unwatch":   act("unwatch", func() { w.unwatch(anyTab.Draw(t, "tab"), some.Draw(t, "targets")) }),
			"pass":      act("pass", func() { w.pass(time.Duration(draw(rapid.IntRange(0, 3000), "ms")) * time.Millisecond) }),
			"pass long": act("pass", func() { w.pass(time.Duration(draw(rapid.IntRange(1, 300), "s")) * time.Second) }),
			"silence":   act("silence", func() { w.silent = !w.silent }),
			"take over": act("take over", func() { w.takeOver(draw(rapid.IntRange(0, 1), "shard")) }),
			"quiet": act("quiet", func() {
				if draw(rapid.IntRange(0, 3), "quiet") == 3 {
					w.settle()
					w.checkTruth()
				}
			}),
			"refresh": act("refresh", func() { w.refresh(anyTab.Draw(t, "tab")) }),
			"resync":  act("resync", func() { w.resync(anyTab.Draw(t, "tab"), false) }),
			"answer":  act("answer", func() { w.take(anyTab.Draw(t, "tab"), false) }),
			"timeout": act("timeout", func() { w.take(anyTab.Draw(t, "tab"), true) }),
			"deliver": act("deliver", func() {
				tab := anyTab.Draw(t, "tab")
				if len(tab.inbox) > 0 {
					i := draw(rapid.IntRange(0, min(2, len(tab.inbox)-1)), "which")
					w.deliver(tab, tab.inbox[i])
					if draw(rapid.IntRange(0, 3), "again") > 0 {
						tab.inbox = slices.Delete(tab.inbox, i, i+1)
					}
				}
			}),
			"lose": act("lose", func() {
				tab := anyTab.Draw(t, "tab")
				if len(tab.inbox) > 0 {
					tab.inbox = tab.inbox[draw(rapid.IntRange(1, len(tab.inbox)), "n"):]
				}
			}),
			"": func(*rapid.T) {},
		})
		w.settle()
		w.checkTruth()
	})
}
