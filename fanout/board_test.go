package fanout

import (
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

type coarse struct{}

func (coarse) Sight(_, target string) rollcall.Granularity { return rollcall.Coarse }

func TestRecentlyIsToldToEnd(t *testing.T) {
	now := begin.Add(12345 * time.Millisecond)
	b := newBoard(boardConfig{generation: 1, policy: coarse{}, window: DefaultWindow, ttl: DefaultInterestTTL, outage: outage, maxPayload: 1 << 20}, now)
	b.loaded(now)
	b.apply(change{"bob", &View{State: rollcall.Active}}, now)
	b.subscribe(nil, "alice", b.plan("alice", []string{"bob"}, now), now)
	b.apply(change{"bob", &View{Seen: rollcall.MicrosOf(now)}}, now)
	told := map[time.Time]string{}
	for end := now.Add(25 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		b.pulse(1, 0, now)
		b.refresh(nil, "alice", now)
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			if len(m.told) > 0 {
				told[now] = string(m.data)
			}
		}
	}
	flip := time.Date(2000, 1, 3, 0, 1, 0, 345e6, time.UTC) // the first step of the first minute after a day
	if len(told) != 2 || !strings.Contains(told[flip], string(rollcall.StatusLongAgo)) {
		t.Errorf("told %v", told)
	}
}
