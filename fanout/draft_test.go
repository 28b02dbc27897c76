package fanout

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Nobody can tell a message that was written ahead from one that was not. Two runs have
// one history; in one of them nothing is written ahead. Everybody must receive the same
// bytes at the same instants.
func TestDraftsDoNotShow(t *testing.T) {
	const enough = 10_000
	for used := 0; used < enough; {
		rapid.Check(t, func(t *rapid.T) {
			d := newDrafted(t)
			for range rapid.IntRange(20, 80).Draw(t, "steps") {
				d.step()
				d.compare()
			}
			d.both(func(r *run) { r.advance(r.now.Add(10 * time.Second)) })
			d.compare()
			used += d.used
		})
		if used == 0 || t.Failed() {
			t.Fatalf("%d drafts", used)
		}
	}
}

// Drafted are two runs, of which the second writes nothing ahead.
type drafted struct {
	*rapid.T
	runs [2]*run
	used int // drafts seen
}

const crowdOf = reviewStep + 20 // so many watch the star that a review takes steps

func newDrafted(t *rapid.T) *drafted {
	cfg := boardConfig{
		generation: 86400, defaults: Open, asks: rapid.IntRange(0, 3).Draw(t, "an application decides") == 0, window: 2 * time.Second,
		ttl: time.Hour, sightTTL: 30 * time.Minute, outage: outage, maxPayload: 1 << 20,
	}
	if rapid.IntRange(0, 3).Draw(t, "narrow") == 0 {
		cfg.maxPayload = maxViewBytes + positionRoom + 300 // a few changes
	}
	d := &drafted{T: t}
	crowded := rapid.IntRange(0, 1).Draw(t, "crowded") == 0
	for i := range d.runs {
		// Two minutes before midnight, so that "recently" ends, and minutes pass.
		r := newRun(cfg, begin.Add(23*time.Hour+58*time.Minute))
		d.runs[i] = r
		for _, v := range draftViewers {
			some := draftTargets[:4]
			r.b.subscribe(nil, v, r.b.plan(v, some, r.now), r.verdicts(v, some), r.now)
		}
		for n := 0; crowded && n < crowdOf; n++ {
			fan := fmt.Sprint("fan", n)
			r.b.subscribe(nil, fan, r.b.plan(fan, draftTargets[:1], r.now), r.verdicts(fan, draftTargets[:1]), r.now)
		}
	}
	d.runs[1].b.drafts.size = maxDrafts // there is no room
	return d
}

var (
	draftViewers = []string{"v", "w", "t0"}
	draftTargets = []string{"t0", "t1", "t2", "t3", "t4", "t5"}
)

func (d *drafted) both(do func(r *run)) {
	for _, r := range d.runs {
		do(r)
	}
}

func (d *drafted) compare() {
	for _, s := range d.runs[0].b.streams {
		if s.draft != nil {
			d.used++
		}
	}
	for viewer := range d.runs[0].heard {
		if diff := differences(d.runs[0].heard[viewer], d.runs[1].heard[viewer]); diff != "" {
			d.Fatalf("%s hears a draft:%s", viewer, diff)
		}
	}
	if a, b := len(d.runs[0].heard), len(d.runs[1].heard); a != b {
		d.Fatalf("%d viewers heard something, and %d without drafts", a, b)
	}
	d.both(func(r *run) { clear(r.heard) })
}

func (d *drafted) step() {
	number := func(label string, to int) int { return rapid.IntRange(0, to).Draw(d.T, label) }
	viewer := rapid.SampledFrom(draftViewers).Draw(d.T, "viewer")
	target := rapid.SampledFrom(draftTargets).Draw(d.T, "target")
	answer := func(r *run, data []byte) { r.hear(viewer, string(data)) }
	switch kind := number("kind", 17); kind {
	case 0, 1, 2, 3, 4:
		state, ago := rollcall.State(number("state", int(rollcall.Active))), time.Duration(0)
		if number("long ago", 3) == 0 {
			ago = Recent - time.Duration(number("minutes", 2))*time.Minute
		}
		d.both(func(r *run) {
			at := rollcall.MicrosOf(r.now)
			r.set(target, &View{State: state, Observed: at, Seen: at.Add(-ago)})
		})
	case 5:
		d.both(func(r *run) { r.set(target, nil) })
	case 6:
		targets := draftTargets[:1+number("targets", len(draftTargets)-1)]
		d.both(func(r *run) { answer(r, r.b.get(nil, viewer, targets, r.verdicts(viewer, targets), r.now)) })
	case 7:
		d.both(func(r *run) { r.b.unsubscribe(viewer, []string{target}, false, r.now) })
	case 8:
		d.both(func(r *run) {
			p := r.b.plan(viewer, []string{target}, r.now)
			answer(r, r.b.subscribe(nil, viewer, p, r.verdicts(viewer, []string{target}), r.now))
		})
	case 9, 10:
		g := wire.Granularity(number("granularity", int(wire.Granularity_GRANULARITY_EXACT)))
		policy := &wire.Policy{Everyone: g}
		if number("a status", 2) > 0 {
			policy.Everyone = wire.Granularity_GRANULARITY_EXACT
			until := int64(rollcall.MicrosOf(d.runs[0].now.Add(time.Duration(1+number("seconds", 6)) * time.Second / 2)))
			policy.Statuses = []*wire.Policy_ManualStatus{{Availability: 1, Text: "back soon", Until: until}}
		}
		data, err := subjects.Encode(policy)
		if err != nil {
			d.Fatal(err)
		}
		d.both(func(r *run) { r.write(change{user: target, kind: subjects.KindPolicy, policy: &data}) })
	case 11:
		groups := []string{"g"}[:number("a member", 1)]
		d.both(func(r *run) { r.write(change{user: viewer, kind: subjects.KindGroups, groups: &groups}) })
	case 12:
		g := wire.Granularity(number("verdict", int(wire.Granularity_GRANULARITY_EXACT)))
		d.both(func(r *run) { r.decide(viewer, target, g) })
	case 13:
		d.both(func(r *run) { r.b.reload(); r.read(); r.b.loaded(r.now) })
	case 14, 15: // The star changes at the instant at which a message falls due.
		s := d.runs[0].b.streams[viewer]
		if at := s.tellAt(d.runs[0].now, d.runs[0].cfg.window); at.After(d.runs[0].now) {
			d.both(func(r *run) { r.advance(at.Add(-1)); r.now = at })
		}
		state := rollcall.State(number("state", int(rollcall.Active)))
		d.both(func(r *run) {
			r.set(draftTargets[0], &View{State: state, Observed: rollcall.MicrosOf(r.now), Seen: rollcall.MicrosOf(r.now)})
		})
	case 16: // The timers are late.
		late := time.Duration(1+number("late", 5)) * time.Second / 2
		d.both(func(r *run) { r.now = r.now.Add(late) })
	}
	if pause := number("milliseconds", 3); pause > 0 {
		d.both(func(r *run) {
			r.advance(r.now.Add([]time.Duration{0, time.Millisecond, 60 * time.Millisecond, 200 * time.Millisecond}[pause]))
		})
	}
}

// What is written ahead is bounded in bytes and in what one step takes, and all of it is
// told.
func TestDraftsAreBounded(t *testing.T) {
	const viewers, each = 300, 100
	b, now, targets := gathering(viewers, each)
	leave(b, targets, now)
	now = now.Add(draftAfter)
	b.drafts.size += maxDrafts - 500_000
	steps := 0
	for reached(b.drafts.next(), now) {
		b.flush(now, batch)
		steps++
	}
	if over := b.drafts.size - maxDrafts; over < 0 || over > 50_000 {
		t.Errorf("%d bytes above the limit", over)
	}
	if least := 500_000 / (each * usualViewBytes) * each / draftStep; steps < least {
		t.Errorf("%d steps, want %d at least", steps, least)
	}
	b.drafts.size -= maxDrafts - 500_000
	told := 0
	now = now.Add(b.window)
	for messages, _ := b.flush(now, batch); len(messages) > 0; messages, _ = b.flush(now, batch) {
		for _, m := range messages {
			told += m.told
		}
	}
	if told != viewers*each {
		t.Errorf("%d changes told, want %d", told, viewers*each)
	}
	if b.drafts.size != 0 || len(b.drafts.spare) > maxSpare {
		t.Errorf("%d bytes of drafts are left, %d spare", b.drafts.size, len(b.drafts.spare))
	}
}

// A gathering is a board whose viewers have just been told something, so that the next
// is held back for a window.
func gathering(viewers, each int) (b *board, now time.Time, targets []string) {
	now = begin
	b = newBoard(boardConfig{generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Hour, outage: time.Hour, maxPayload: 1 << 20}, now)
	b.loaded(now)
	for i := range viewers * each / 40 {
		targets = append(targets, fmt.Sprintf("user-%07d", i))
	}
	for _, id := range append(targets, "marker") {
		b.apply(viewOf(id, &View{State: rollcall.Active, Observed: rollcall.MicrosOf(now)}), now)
	}
	for i := range viewers {
		list := []string{"marker"}
		for n := range each {
			list = append(list, targets[(i*7+n*13)%len(targets)])
		}
		viewer := fmt.Sprintf("viewer-%06d", i)
		b.subscribe(nil, viewer, b.plan(viewer, list, now), nil, now)
	}
	b.apply(viewOf("marker", &View{State: rollcall.Idle}), now)
	for messages, next := b.flush(now, batch); len(messages) > 0 || reached(next, now); messages, next = b.flush(now, batch) {
	}
	return b, now, targets
}

func leave(b *board, targets []string, now time.Time) {
	for _, id := range targets {
		b.apply(viewOf(id, &View{Observed: rollcall.MicrosOf(now), Seen: rollcall.MicrosOf(now)}), now)
	}
}

// What a storm's message of 50 changes costs at the moment when it falls due.
func BenchmarkStormDue(b *testing.B) {
	for _, row := range []struct {
		name  string
		drawn int // bytes of other drafts
	}{{"written ahead", 0}, {"written when due", maxDrafts}} {
		b.Run(row.name, func(b *testing.B) {
			var took, ahead time.Duration
			n := 0
			for b.Loop() {
				board, now, targets := gathering(1000, 50)
				board.drafts.size = row.drawn
				leave(board, targets, now)
				begin := time.Now()
				for now = now.Add(draftAfter); reached(board.drafts.next(), now); {
					board.flush(now, batch)
				}
				ahead += time.Since(begin)
				begin = time.Now()
				now = now.Add(board.window)
				for messages, _ := board.flush(now, batch); len(messages) > 0; messages, _ = board.flush(now, batch) {
					n += len(messages)
				}
				took += time.Since(begin)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/message")
			b.ReportMetric(float64(ahead.Nanoseconds())/float64(n), "ns-ahead/message")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A draft does not outlive what its targets say of themselves, even if the timers are so
// late that the message comes first; nor if a target has shortened it since.
func TestADraftEndsWithAStatus(t *testing.T) {
	for _, until := range [][]time.Duration{{2 * DefaultWindow}, {4 * DefaultWindow, 2 * DefaultWindow}} {
		now := begin
		b := newBoard(boardConfig{generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Hour, outage: time.Hour, maxPayload: 1 << 20}, now)
		b.loaded(now)
		for _, id := range []string{"bob", "carol"} {
			b.apply(viewOf(id, &View{State: rollcall.Active}), now)
		}
		b.subscribe(nil, "alice", b.plan("alice", []string{"bob", "carol"}, now), nil, now)
		b.apply(viewOf("carol", &View{State: rollcall.Idle}), now)
		b.flush(now, batch) // opens the window
		said := now
		for _, d := range until {
			status := &wire.Policy_ManualStatus{Availability: 1, Text: "back soon", Until: said.Add(d).UnixMicro()}
			data, err := subjects.Encode(&wire.Policy{Statuses: []*wire.Policy_ManualStatus{status}})
			if err != nil {
				t.Fatal(err)
			}
			b.apply(change{user: "bob", kind: subjects.KindPolicy, policy: &data}, now)
			now = now.Add(draftAfter)
			if b.flush(now, batch); b.streams["alice"].draft == nil {
				t.Fatal("nothing is written ahead")
			}
		}
		now = said.Add(3 * DefaultWindow)
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			if m.told > 0 {
				t.Errorf("after statuses until %s: told %s", until, m.data)
			}
		}
	}
}
