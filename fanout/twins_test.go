package fanout

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// The people of a history. What the two runs do not have in common is about mark.
const (
	mark   = "m"
	nobody = "n" // never exists
)

var (
	others  = []string{"a", "b", "y", "z"}
	viewers = []string{"f", mark, "v", "w"} // friends, the target itself, and those who may be kept in the dark
	objects = []string{"a", "b", mark, nobody, "v", "y", "z"}
)

// Twins are two runs with one history. While they are together, the same happens in
// both; while they are apart, what differs is what the observers must not notice.
type twins struct {
	*rapid.T
	runs      [2]*run
	observers []string
	secret    secret
	apart     bool
	slow      bool // days pass
	asks      bool
	changes   int // steps of state and policy
	requests  int
}

// A secret is what the runs do not have in common.
type secret interface {
	// enter brings observers to where the runs may part; it is false if they may not now.
	enter(w *twins) bool
	// step is one of the target while the runs are apart.
	step(w *twins)
	// leave makes the target the same again as far as anybody will see; it is false
	// if that cannot be done now.
	leave(w *twins) bool
	// together is a step of the target in both runs.
	together(w *twins)
	// permits says whether a user's policy may become what it would in a run.
	permits(w *twins, r *run, user string, d dossier) bool
	// asks draws whether an application decides; muted says that it is silent to the
	// observers; defaults draws what may be known of those who say nothing.
	asks(t *rapid.T) bool
	muted() bool
	defaults(t *rapid.T) Defaults
	// deadline is when the runs must be together again, zero for never.
	deadline() time.Time
}

func newTwins(t *rapid.T, s secret) *twins {
	w := &twins{T: t, secret: s, asks: s.asks(t), slow: !s.muted() && rapid.IntRange(0, 2).Draw(t, "slow") == 0}
	cfg := boardConfig{
		generation: 86400, defaults: s.defaults(t), asks: w.asks, window: DefaultWindow,
		ttl: DefaultInterestTTL, sightTTL: DefaultSightTTL, outage: outage, maxPayload: 1 << 20,
	}
	if w.slow {
		cfg.ttl, cfg.sightTTL, cfg.outage = 100*time.Hour, 50*time.Hour, 200*time.Hour
	}
	limit := subjects.MaxTargets
	if rapid.IntRange(0, 3).Draw(t, "narrow") == 0 {
		cfg.maxPayload, limit = maxViewBytes+w.number("room", 60, 600), 5
	}
	for i := range w.runs {
		w.runs[i] = newRun(cfg, begin.Add(86_400*time.Second-time.Hour+1234567*time.Microsecond))
		w.runs[i].maxTargets = limit
	}
	return w
}

func (w *twins) now() time.Time { return w.runs[0].now }

func (w *twins) both(do func(r *run)) {
	for _, r := range w.runs {
		do(r)
	}
}

func (w *twins) number(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(w.T, label)
}

func (w *twins) chance(label string, oneIn int) bool { return w.number(label, 1, oneIn) == 1 }

func (w *twins) one(label string, of []string) string { return rapid.SampledFrom(of).Draw(w.T, label) }

// sides draws whether something happens in one run only, and in which.
func (w *twins) sides() []*run {
	switch w.number("side", 0, 2) {
	case 0:
		return w.runs[:1]
	case 1:
		return w.runs[1:]
	}
	return w.runs[:]
}

// compare fails if an observer can tell the runs apart.
func (w *twins) compare() {
	for _, v := range w.observers {
		if d := differences(w.runs[0].heard[v], w.runs[1].heard[v]); d != "" {
			w.Fatalf("%s can tell the runs apart:%s", v, d)
		}
	}
	w.both(func(r *run) { clear(r.heard) })
}

// pass lets time pass.
func (w *twins) pass(d time.Duration) {
	to := w.now().Add(d + time.Millisecond)
	if end := w.secret.deadline(); w.apart && !end.IsZero() && !end.After(to) {
		w.both(func(r *run) {
			r.loaded()
			r.advance(end.Add(-1))
			r.now = end // before anything happens at it
		})
		w.compare()
		if !w.leave() {
			w.Fatalf("the runs stay apart beyond %s", end)
		}
	}
	w.both(func(r *run) { r.advance(to) })
	w.compare()
}

func (w *twins) play() {
	steps := w.number("steps", 40, 120)
	w.part()
	for range steps {
		w.step()
		w.compare()
	}
	w.pass(20 * time.Second)
}

func (w *twins) part() {
	if !w.apart && w.secret.enter(w) {
		w.apart = true
	}
}

// leave brings the runs together, with nothing still to be read.
func (w *twins) leave() bool {
	w.both((*run).loaded)
	if w.apart = !w.secret.leave(w); w.apart {
		return false
	}
	// What the keeper sees next it sees later.
	next := w.now().Add(time.Millisecond)
	w.both(func(r *run) { r.advance(next) })
	return true
}

func (w *twins) step() {
	switch w.number("what", 0, 27) { // the lower numbers come more often
	case 0, 1, 2, 3, 4:
		w.request()
	case 5, 6, 7:
		w.pass(time.Duration(w.number("ms", 0, 1500)) * time.Millisecond)
	case 8, 9, 10:
		w.changes++
		v := w.anyView()
		user := w.one("user", append(others[:4:4], "v"))
		w.both(func(r *run) { r.set(user, v) })
	case 11, 12, 13, 14, 15, 16, 17:
		w.changes++
		if w.apart {
			w.secret.step(w)
		} else {
			w.secret.together(w)
		}
	case 18:
		w.changes++
		user := w.one("user", []string{"a", "b", "y", "z", "v", "w", "f"})
		w.amend(user, w.runs[:], w.anyPolicy())
	case 19, 20:
		w.pass(time.Duration(w.number("s", 1, 300)) * time.Second)
	case 21, 22:
		if w.slow {
			w.pass(time.Duration(w.number("hours", 1, 30)) * time.Hour)
		} else {
			w.pass(w.now().Truncate(time.Minute).Add(time.Minute).Sub(w.now()))
		}
	case 23, 24:
		if w.apart {
			w.leave()
		} else {
			w.part()
		}
	case 25, 26:
		w.trouble()
	case 27:
		if w.asks {
			w.application()
		}
	}
}

// anyView draws what the keeper may publish now.
func (w *twins) anyView() *View {
	now := rollcall.MicrosOf(w.now())
	v := &View{State: rollcall.State(w.number("state", 0, 3)), Observed: now}
	if v.State != rollcall.Offline {
		v.Activity = w.one("activity", []string{"", "", "lesson"})
		return v
	}
	switch w.number("seen", 0, 3) {
	case 0:
	case 1:
		v.Seen = now.Add(-time.Duration(w.number("s", 0, 100)) * time.Second)
	case 2: // "recently" ends soon, and for several at the same minute
		v.Seen = now.Add(-rollcallDay + time.Duration(w.number("s", -60, 180))*time.Second)
	case 3:
		v.Seen = now.Add(-time.Duration(w.number("hours", 1, 70)) * time.Hour)
	}
	return v
}

const rollcallDay = 24 * time.Hour

// A command is an operation on a policy.
type command struct {
	op      subjects.PolicyOp
	request subjects.PolicyRequest
}

func (w *twins) anyPolicy() command {
	op, r := drawPolicy(w.T, w.one("viewer", []string{"f", "v", "w", "a"}), w.now())
	return command{op, r}
}

// amend carries out a command in some runs, unless it would tell an observer more, or
// less, than it may know there.
func (w *twins) amend(user string, runs []*run, c command) bool {
	changed := make([]dossier, len(runs))
	for i, r := range runs {
		d, err := r.amended(c.op, user, c.request)
		if err != nil || w.apart && !w.secret.permits(w, r, user, d) {
			return false
		}
		changed[i] = d
	}
	for i, r := range runs {
		r.file(user, changed[i])
	}
	return true
}

func (w *twins) request() {
	w.requests++
	viewer := w.one("viewer", viewers)
	runs := w.runs[:]
	if w.apart && !slices.Contains(w.observers, viewer) && w.chance("alone", 2) {
		runs = w.sides()
	}
	targets := rapid.SliceOfNDistinct(rapid.SampledFrom(objects), 1, len(objects), rapid.ID[string]).Draw(w.T, "targets")
	switch w.number("op", 0, 6) {
	case 0, 1, 2:
		var stored []func()
		for _, r := range runs {
			stored = append(stored, r.subscribe(viewer, targets))
		}
		if w.chance("slow store", 3) {
			if w.apart && w.chance("meanwhile", 2) {
				w.secret.step(w)
			}
			w.pass(time.Duration(w.number("ms", 1, 50)) * time.Millisecond)
		}
		for _, store := range stored {
			if store != nil {
				store()
			}
		}
	case 3:
		for _, r := range runs {
			r.request(viewer, subjects.OpGet, targets)
		}
	case 4, 5:
		for _, r := range runs {
			r.request(viewer, subjects.OpRefresh, nil)
		}
	case 6:
		if w.chance("all", 3) {
			targets = nil
		}
		for _, r := range runs {
			r.request(viewer, subjects.OpUnsubscribe, targets)
		}
	}
}

// trouble is what is wrong for everybody.
func (w *twins) trouble() {
	switch w.number("trouble", 0, 6) {
	case 0:
		w.both(func(r *run) { r.silent = !r.silent })
	case 1:
		w.both(func(r *run) { r.lagging = true })
	case 2:
		w.both(func(r *run) { r.lagging, r.keeper, r.silent = false, r.keeper+1, false })
	case 3:
		w.both((*run).takeOver)
	case 4:
		w.both((*run).reload)
	case 5:
		w.both((*run).loaded)
	case 6:
		w.both(func(r *run) { r.b.confirmAll(r.now) })
	}
}

// application changes what the application says of those about whom the runs agree.
func (w *twins) application() {
	viewer, target := w.one("viewer", viewers), w.one("target", objects)
	if slices.Contains(w.observers, viewer) && (target == mark || w.secret.muted()) {
		return
	}
	w.changes++
	g := wire.Granularity(w.number("verdict", 1, 4))
	silent := !w.slow && w.chance("silent", 4) // it is asked every few seconds
	w.both(func(r *run) {
		r.mute[viewer] = silent
		r.decide(viewer, target, g)
	})
}

// sight is how much a viewer may know of the target in a run if the policy of a user
// were the given one: what the documentation says, in other words than the code.
func (w *twins) sight(r *run, viewer, user string, changed dossier) rollcall.Granularity {
	file := func(id string) dossier {
		if id == user {
			return changed
		}
		return r.dossier(id)
	}
	target, beholder := file(mark), file(viewer)
	p := orEmpty(target.policy)
	pick := func(g wire.Granularity, otherwise rollcall.Granularity) rollcall.Granularity {
		if g == wire.Granularity_GRANULARITY_UNSPECIFIED {
			return otherwise
		}
		return []rollcall.Granularity{rollcall.Absent, rollcall.Hidden, rollcall.Coarse, rollcall.Exact}[g-1]
	}
	switch {
	case slices.Contains(p.Blocks, viewer):
		return rollcall.Absent
	case w.asks:
		return pick(r.says[viewer][mark], rollcall.Exact)
	}
	if i := slices.Index(p.Viewers, viewer); i >= 0 {
		return pick(p.Granularities[i], 99)
	}
	if slices.Contains(p.Contacts, viewer) {
		return pick(p.Contact, r.cfg.defaults.Contact)
	}
	for _, g := range target.groups {
		if slices.Contains(beholder.groups, g) {
			return pick(p.Member, r.cfg.defaults.Member)
		}
	}
	return pick(p.Everyone, r.cfg.defaults.Everyone)
}
