package fanout

import (
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Kept is what all secrets have in common whose observers may know so much of the
// target and no more, for as long as the runs are apart.
type kept struct {
	g rollcall.Granularity
	// ghost: in the second run there never is a target. Empty: there is none now.
	ghost, empty bool
	entered      rollcall.Micros
}

func (k *kept) asks(t *rapid.T) bool { return rapid.IntRange(0, 2).Draw(t, "application") == 0 }

func (k *kept) muted() bool { return false }

func (k *kept) deadline() time.Time { return time.Time{} }

func (k *kept) defaults(t *rapid.T) Defaults {
	switch rapid.IntRange(0, 2).Draw(t, "defaults") {
	case 0:
		return Open
	case 1:
		return Defaults{k.g, k.g, k.g}
	}
	any := func() rollcall.Granularity { return rollcall.Granularity(rapid.IntRange(0, 3).Draw(t, "default")) }
	return Defaults{any(), any(), any()}
}

// enter gives every observer the same granularity, each by a way of its own.
func (k *kept) enter(w *twins) bool {
	if k.ghost && w.asks {
		for _, v := range w.observers {
			w.runs[0].decide(v, mark, storedGranularity(k.g))
			w.runs[1].decide(v, mark, storedGranularity(k.g))
		}
	}
	if k.g == rollcall.Absent && (k.ghost || w.chance("only blocked", 3)) {
		return k.block(w)
	}
	// Whoever was seen last may still be offline under a cover. A view of now ends that.
	v := w.anyView()
	commands := []command{{op: subjects.PolicyForget}}
	for _, observer := range w.observers {
		commands = append(commands, k.way(w, observer)...)
	}
	if k.ghost { // known to an application only
		k.empty = true
		w.runs[0].set(mark, v)
		w.pass(time.Second)
		return true
	}
	now := rollcall.MicrosOf(w.now())
	var files []dossier
	for _, r := range w.runs {
		d := r.dossier(mark)
		for _, c := range commands {
			var err error
			if d, err = d.amend(c.op, c.request, r.view(mark), now); err != nil {
				return false
			}
		}
		if !k.permits(w, r, mark, d) {
			return false
		}
		files = append(files, d)
	}
	for i, r := range w.runs {
		r.file(mark, files[i])
	}
	w.pass(time.Second) // the application's answers come
	v.Observed = rollcall.MicrosOf(w.now())
	w.both(func(r *run) { r.set(mark, v) })
	w.pass(time.Millisecond)
	k.entered = rollcall.MicrosOf(w.now())
	return true
}

// way draws how an observer comes to know as much as it may.
func (k *kept) way(w *twins, observer string) []command {
	g := &k.g
	users := subjects.PolicyRequest{Users: []string{observer}}
	if w.asks {
		w.both(func(r *run) { r.decide(observer, mark, storedGranularity(k.g)) })
		return nil
	}
	switch w.number("way", 0, 5) {
	case 0:
		return []command{{subjects.PolicyAllow, subjects.PolicyRequest{Users: users.Users, Granularity: g}}}
	case 1:
		return []command{{subjects.PolicySet, subjects.PolicyRequest{Relations: subjects.Relations{Everyone: g}}}}
	case 2:
		return []command{{subjects.PolicyContact, users}, {subjects.PolicySet, subjects.PolicyRequest{Relations: subjects.Relations{Contact: g}}}}
	case 3:
		join := subjects.PolicyRequest{Groups: []string{"red"}}
		w.amend(observer, w.runs[:], command{subjects.PolicyJoin, join})
		return []command{{subjects.PolicyJoin, join}, {subjects.PolicySet, subjects.PolicyRequest{Relations: subjects.Relations{Member: g}}}}
	case 4:
		if k.g == rollcall.Absent {
			return []command{{subjects.PolicyBlock, users}}
		}
	}
	return nil // by default, perhaps
}

// block parts the runs by a block in the first, while in the second the target is
// deleted or never was.
func (k *kept) block(w *twins) bool {
	a, b := w.runs[0], w.runs[1]
	if w.asks && !k.ghost {
		for _, v := range w.observers { // of nobody it does not say that somebody hides
			w.both(func(r *run) { r.decide(v, mark, wire.Granularity_GRANULARITY_EXACT) })
		}
		w.pass(time.Second)
	}
	w.amend(mark, w.runs[:1], command{subjects.PolicyBlock, subjects.PolicyRequest{Users: w.observers}})
	if !k.permits(w, a, mark, a.dossier(mark)) {
		return false
	}
	b.set(mark, nil)
	b.file(mark, dossier{})
	k.empty = true
	return true
}

func (k *kept) permits(w *twins, r *run, user string, d dossier) bool {
	if k.empty && r == w.runs[1] {
		return user != mark
	}
	for _, v := range w.observers {
		if w.sight(r, v, user, d) != k.g {
			return false
		}
	}
	// Those from whom it hides may know that it exists.
	return k.g != rollcall.Hidden || w.asks || user != mark || d.policy != nil || r.view(mark) != nil
}

// copyTarget makes the second run's records of the target those of the first, unless an
// observer would see something on the way.
func (w *twins) copyTarget() bool {
	from, to := w.runs[0], w.runs[1]
	old, d := to.dossier(mark), from.dossier(mark)
	policyFirst := w.secret.permits(w, to, mark, dossier{d.policy, old.groups})
	groupsFirst := w.secret.permits(w, to, mark, dossier{old.policy, d.groups})
	v := from.view(mark)
	if v != nil {
		to.set(mark, v)
	}
	switch {
	case policyFirst:
		to.file(mark, dossier{d.policy, old.groups})
	case groupsFirst:
		to.file(mark, dossier{old.policy, d.groups})
	default:
		return false
	}
	to.file(mark, d)
	if v == nil {
		to.set(mark, nil)
	}
	return true
}

func (k *kept) leave(w *twins) bool {
	if k.ghost {
		return false
	}
	wasEmpty := k.empty
	k.empty = false
	if wasEmpty { // the block comes before what it hides
		d := w.runs[0].dossier(mark)
		w.runs[1].file(mark, dossier{policy: d.policy})
		w.runs[1].file(mark, d)
	}
	if !w.copyTarget() {
		return false
	}
	if w.chance("forget", 2) {
		w.amendTogether(command{op: subjects.PolicyForget})
	}
	return true
}

// amendTogether carries out a command on the target in runs that are together again.
func (w *twins) amendTogether(c command) {
	apart := w.apart
	w.apart = false
	w.amend(mark, w.runs[:], c)
	w.apart = apart
}

func (k *kept) together(w *twins) {
	switch {
	case k.ghost:
	case w.chance("policy", 2):
		w.amend(mark, w.runs[:], w.anyPolicy())
	default:
		v := w.anyView()
		w.both(func(r *run) { r.set(mark, v) })
	}
}

// Unseen is a target of which the observers may know nothing, or only that it exists:
// the two runs have nothing in common.
type unseen struct{ kept }

func (u *unseen) step(w *twins) {
	for _, r := range w.runs {
		if !u.empty || r == w.runs[0] {
			w.live(r)
		}
	}
}

// live is a step of the target in one run.
func (w *twins) live(r *run) {
	switch w.number("live", 0, 8) {
	case 0, 1, 2, 3:
		r.set(mark, w.anyView())
	case 4:
		old := r.view(mark)
		if r.set(mark, nil); !w.secret.permits(w, r, mark, r.dossier(mark)) {
			r.set(mark, old)
		}
	case 5, 6, 7:
		w.amend(mark, []*run{r}, w.anyPolicy())
	case 8:
		if w.asks {
			r.decide("f", mark, wire.Granularity(w.number("verdict", 1, 4)))
		}
	}
}

// Silence is an application that does not say what the observers may know.
type silence struct{ unseen }

func (s *silence) asks(*rapid.T) bool { return true }

func (s *silence) muted() bool { return true }

func (s *silence) permits(*twins, *run, string, dossier) bool { return true }

func (s *silence) enter(w *twins) bool {
	w.both(func(r *run) {
		for _, v := range w.observers {
			r.mute[v] = true
			r.b.doubt(v, "", r.now)
		}
	})
	w.pass(time.Second)
	return true
}

func (s *silence) leave(w *twins) bool {
	if s.ghost || !w.copyTarget() {
		return false
	}
	w.both(func(r *run) {
		for _, v := range w.observers {
			r.mute[v] = false
			r.b.doubt(v, "", r.now)
		}
	})
	return true
}

// Vague is a target of which the observers know only whether it is online, and of which
// the runs differ in all else.
type vague struct {
	kept
	online   bool
	seen     rollcall.Micros // of the first run
	narrowBy time.Time       // when "last seen" must be about the same again; zero if it is
}

func (c *vague) deadline() time.Time { return c.narrowBy }

func (c *vague) enter(w *twins) bool {
	entered := c.kept.enter(w)
	if entered {
		c.renew(w)
	}
	return entered
}

// renew puts the target online in both runs.
func (c *vague) renew(w *twins) {
	v := &View{State: rollcall.Active, Observed: rollcall.MicrosOf(w.now())}
	w.both(func(r *run) {
		r.set(mark, v)
		r.loaded()
	})
	c.online, c.narrowBy = true, time.Time{}
}

func (c *vague) leave(w *twins) bool {
	c.renew(w)
	return c.kept.leave(w)
}

func (c *vague) permits(w *twins, r *run, user string, d dossier) bool {
	return c.kept.permits(w, r, user, d) && (user != mark || !hides(d))
}

// hides says whether a user appears offline, or will.
func hides(d dossier) bool {
	for _, s := range orEmpty(d.policy).Statuses {
		if rollcall.Availability(s.Availability) == rollcall.Invisible {
			return true
		}
	}
	return false
}

func (c *vague) step(w *twins) {
	if !c.narrowBy.IsZero() {
		// What is being read must not come later than the two are far apart.
		defer w.both((*run).loaded)
	}
	switch w.number("vague", 0, 5) {
	case 0, 1:
		v := w.anyView()
		if v.State != rollcall.Offline {
			c.online, c.narrowBy = true, time.Time{}
			for _, r := range w.runs {
				r.set(mark, c.onlineView(w))
			}
			return
		}
		c.online, c.seen, c.narrowBy = false, v.Seen, time.Time{}
		w.runs[0].set(mark, v)
		w.runs[1].set(mark, c.offlineView(w, w.chance("wide", 3) && w.runs[0].b.loading == nil))
	case 2, 3:
		for _, r := range w.sides() {
			if c.online {
				r.set(mark, c.onlineView(w))
			} else if c.narrowBy.IsZero() {
				r.set(mark, c.offlineView(w, false))
			}
		}
	default:
		for _, r := range w.sides() {
			w.amend(mark, []*run{r}, w.anyPolicy())
		}
	}
}

// observed is some moment at which the keeper may have seen it.
func (c *vague) observed(w *twins) rollcall.Micros {
	now := rollcall.MicrosOf(w.now())
	return max(now.Add(-time.Duration(w.number("observed", 0, 900))*time.Second), c.entered)
}

func (c *vague) onlineView(w *twins) *View {
	return &View{State: rollcall.State(w.number("state", 1, 3)), Activity: w.one("activity", []string{"", "lesson", "exam"}), Observed: c.observed(w)}
}

// offlineView differs from that of the first run in what a coarse viewer cannot see.
func (c *vague) offlineView(w *twins, wide bool) *View {
	v := &View{Observed: c.observed(w)}
	now := rollcall.MicrosOf(w.now())
	switch minute := cutMinute(c.seen); {
	case wide && c.seen > now.Add(-12*time.Hour):
		v.Seen = now.Add(-time.Duration(w.number("minutes", 0, 12*60)) * time.Minute)
		c.narrowBy = w.now().Add(11 * time.Hour)
	case c.seen == 0 || c.seen < now.Add(-25*time.Hour):
		if ago := w.number("days", 1, 9); ago > 1 {
			v.Seen = now.Add(-time.Duration(ago) * rollcallDay)
		}
	default:
		v.Seen = minute + rollcall.Micros(w.number("µs", 0, 59_999_999))
	}
	return v
}

// Seconds is a target of which the observers know all but the seconds.
type seconds struct{ kept }

func (s *seconds) permits(w *twins, r *run, user string, d dossier) bool {
	return s.kept.permits(w, r, user, d) && (user != mark || !hides(d))
}

func (s *seconds) leave(w *twins) bool {
	v := &View{State: rollcall.Idle, Observed: rollcall.MicrosOf(w.now())}
	w.both(func(r *run) { r.set(mark, v) })
	return s.kept.leave(w)
}

func (s *seconds) step(w *twins) {
	if w.chance("policy", 3) {
		c := w.anyPolicy()
		switch c.op {
		case subjects.PolicyStatus, subjects.PolicyClear, subjects.PolicyForget:
			w.amend(mark, w.runs[:], c)
		default:
			for _, r := range w.sides() {
				w.amend(mark, []*run{r}, c)
			}
		}
		return
	}
	v := w.anyView()
	within := func(m rollcall.Micros) rollcall.Micros {
		return max(cutMinute(m)+rollcall.Micros(w.number("µs", 0, 59_999_999)), 1)
	}
	for _, r := range w.runs {
		again := *v
		again.Observed = max(within(v.Observed), s.entered)
		if v.Seen != 0 {
			again.Seen = within(v.Seen)
		}
		r.set(mark, &again)
	}
}

// Covered is a target that appears offline in the first run and really is offline in
// the second. The observers are all others.
type covered struct {
	kept
	until time.Time // when the cover ends by itself, zero if never
	// lifted is the end of the last cover: who is seen online after it gives a sign of
	// life after it. Away is who has not been online since.
	lifted rollcall.Micros
	away   bool
}

func (c *covered) deadline() time.Time { return c.until }

func (c *covered) permits(*twins, *run, string, dossier) bool { return true }

// odd keeps ends of covers away from all that happens on the millisecond: what comes
// first at one instant is not what is tested.
const odd = 137 * time.Microsecond

func (c *covered) hiding(w *twins) command {
	s := &subjects.ManualStatus{Availability: rollcall.Invisible, Priority: w.number("priority", 0, 2)}
	if w.chance("with an end", 2) {
		s.Until = w.now().Truncate(time.Millisecond).Add(time.Duration(w.number("s", 1, 400))*time.Second + odd)
	}
	return command{subjects.PolicyStatus, subjects.PolicyRequest{Status: s}}
}

// cover files a policy that hides and notes until when.
func (c *covered) cover(r *run, d dossier) {
	c.until = time.Time{}
	for _, s := range d.policy.Statuses {
		if rollcall.Availability(s.Availability) != rollcall.Invisible {
			continue
		}
		if s.Until == 0 {
			c.until = time.Time{}
			break
		}
		if end := rollcall.Micros(s.Until).Time(); end.After(c.until) {
			c.until = end
		}
	}
	r.file(mark, d)
}

func (c *covered) enter(w *twins) bool {
	a, b := w.runs[0], w.runs[1]
	// Hidden viewers may know that it exists. It would be a policy that tells them of
	// one that was never online and hides by default.
	if a.view(mark) == nil && c.lifted == 0 && (a.cfg.defaults != Open || w.chance("was seen", 2)) {
		v := w.anyView()
		w.both(func(r *run) { r.set(mark, v) })
	}
	hide := c.hiding(w)
	d, err := a.amended(hide.op, mark, hide.request)
	if err != nil {
		return false
	}
	c.cover(a, d)
	if v := b.view(mark); v != nil && v.State != rollcall.Offline {
		now := rollcall.MicrosOf(w.now())
		b.set(mark, &View{Observed: now, Seen: now})
	}
	return true
}

func (c *covered) step(w *twins) {
	a := w.runs[0]
	switch w.number("covered", 0, 7) {
	case 0, 1, 2, 3:
		a.set(mark, w.anyView())
	case 4, 5:
		w.both((*run).loaded) // or the end that was known first would come
		command := c.hiding(w)
		if w.chance("something else", 2) {
			command = w.anyPolicy()
		}
		switch command.op {
		case subjects.PolicyStatus, subjects.PolicyClear:
			if s := command.request.Status; s != nil && !s.Until.IsZero() {
				s.Until = s.Until.Truncate(time.Millisecond).Add(odd)
			}
			if d, err := a.amended(command.op, mark, command.request); err == nil && hides(d) {
				c.cover(a, d)
			}
		case subjects.PolicyForget:
		default:
			w.amend(mark, w.runs[:], command)
		}
	case 6, 7:
		command := w.anyPolicy()
		switch command.op {
		case subjects.PolicyStatus, subjects.PolicyClear, subjects.PolicyForget:
		default:
			w.amend(mark, w.runs[:], command)
		}
	}
}

func (c *covered) leave(w *twins) bool {
	a, b := w.runs[0], w.runs[1]
	now := rollcall.MicrosOf(w.now())
	if c.until.IsZero() || w.now().Before(c.until) {
		end := command{op: subjects.PolicyClear}
		if w.chance("forget", 3) && len(a.dossier(mark).groups) == 0 {
			end.op = subjects.PolicyForget
		}
		d, err := a.amended(end.op, mark, end.request)
		if err != nil {
			return false
		}
		a.file(mark, d)
	}
	c.until = time.Time{}
	// The second run's policy is the first's, but for what the cover has left.
	d := a.dossier(mark)
	d.policy = orEmpty(d.policy)
	d.policy.Cover = orEmpty(b.dossier(mark).policy).Cover
	expireStatuses(d.policy, now)
	if len(d.policy.String()) == 0 {
		d.policy = nil
	}
	b.file(mark, d)
	if c.lifted = 0; orEmpty(a.dossier(mark).policy).Cover != nil {
		c.lifted = now
	}
	v := a.view(mark)
	if c.away = v == nil || v.State == rollcall.Offline; !c.away {
		came := *v
		came.Observed = now
		b.set(mark, &came)
	}
	return true
}

func (c *covered) together(w *twins) {
	if w.chance("policy", 2) {
		command := w.anyPolicy()
		if s := command.request.Status; s == nil || s.Availability != rollcall.Invisible {
			w.amend(mark, w.runs[:], command)
		}
		if orEmpty(w.runs[0].dossier(mark).policy).Cover == nil {
			c.lifted = 0 // all is forgotten
		}
		return
	}
	v := w.anyView()
	if c.away && v.State == rollcall.Offline {
		v.State = rollcall.Idle
	}
	c.away = false
	real := *v
	if v.State == rollcall.Offline {
		real.Seen = max(v.Seen, c.lifted)
	}
	w.runs[0].set(mark, v)
	w.runs[1].set(mark, &real)
}
