package fanout

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

// A crowd is a board on which very many viewers watch one target and a few another.
func crowd(viewers int) (b *board, now time.Time) {
	now = begin
	b = newBoard(boardConfig{
		generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Hour, outage: time.Hour, maxPayload: 1 << 20,
	}, now)
	b.loaded(now)
	for i := range viewers {
		viewer := fmt.Sprint("fan-", i)
		b.subscribe(nil, viewer, b.plan(viewer, []string{"star"}, now), nil, now)
	}
	b.subscribe(nil, "vera", b.plan("vera", []string{"bob"}, now), nil, now)
	return b, now
}

func TestACrowdLeavesRoomForOthers(t *testing.T) {
	const fans = 100_000
	b, now := crowd(fans)
	b.apply(viewOf("star", &View{State: rollcall.Active}), now)
	heard := make(map[string]bool)
	flush := func() (n int) {
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			if heard[m.viewer] {
				t.Fatalf("%s is told twice", m.viewer)
			}
			heard[m.viewer] = true
		}
		return len(messages)
	}
	for range 5 {
		if n := flush(); n > batch {
			t.Fatalf("%d messages in one step", n)
		}
	}
	// In the midst of it bob comes online, a moment later.
	now = now.Add(time.Millisecond)
	before := len(heard)
	b.apply(viewOf("bob", &View{State: rollcall.Active}), now)
	for !heard["vera"] {
		flush()
	}
	if waited := len(heard) - before; waited > reviewLimit+batch {
		t.Errorf("%d others were told before vera", waited)
	}
	for flush() > 0 || b.targets["star"].unreviewed > 0 {
	}
	if len(heard) != fans+1 {
		t.Errorf("%d were told, want %d", len(heard), fans+1)
	}
}

// A review that is under way must not lose a watch that moves because another ends,
// nor tell of a state that has passed.
func TestAReviewGoesOnWhileWatchesEnd(t *testing.T) {
	b, now := crowd(2 * reviewStep)
	b.apply(viewOf("star", &View{State: rollcall.Active}), now)
	for i := range 600 {
		viewer := fmt.Sprint("fan-", i)
		b.unsubscribe(viewer, []string{"star"}, false, now)
	}
	late := "late"
	b.subscribe(nil, late, b.plan(late, []string{"star"}, now), nil, now)
	told := make(map[string]int)
	for range 40 {
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			told[m.viewer] += m.told
		}
		now = now.Add(DefaultWindow)
	}
	for i := range 2 * reviewStep {
		viewer, want := fmt.Sprint("fan-", i), 1
		if i < 600 {
			want = 0
		}
		if told[viewer] != want {
			t.Fatalf("%s was told %d changes, want %d", viewer, told[viewer], want)
		}
	}
	if told[late] != 0 {
		t.Error("who came late was told what the snapshot had said")
	}
}

// How long one step of a fanout takes, at most, while 100,000 viewers of one target
// are told: nobody else waits longer for the shard.
func BenchmarkCrowd(b *testing.B) {
	board, now := crowd(100_000)
	states := []rollcall.State{rollcall.Active, rollcall.Idle}
	var longest time.Duration
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Minute)
		board.refresh(nil, "vera", now)
		step := func(f func()) {
			start := time.Now()
			f()
			longest = max(longest, time.Since(start))
		}
		step(func() { board.apply(viewOf("star", &View{State: states[i%2], Observed: rollcall.MicrosOf(now)}), now) })
		told := 0
		for more := true; more; {
			step(func() {
				messages, next := board.flush(now, batch)
				for _, m := range messages {
					told += m.told
				}
				more = !next.After(now)
			})
		}
		if told != 100_000 {
			b.Fatalf("%d were told", told)
		}
	}
	b.ReportMetric(float64(longest.Microseconds()), "µs/longest-step")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100_000, "µs/viewer")
}
