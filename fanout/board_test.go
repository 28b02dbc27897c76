package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

func TestRecentlyIsToldToEnd(t *testing.T) {
	now := begin.Add(12345 * time.Millisecond)
	b := newBoard(boardConfig{generation: 1, defaults: Defaults{rollcall.Coarse, rollcall.Coarse, rollcall.Coarse}, window: DefaultWindow, ttl: DefaultInterestTTL, outage: outage, maxPayload: 1 << 20}, now)
	b.loaded(now)
	b.apply(viewOf("bob", &View{State: rollcall.Active}), now)
	b.subscribe(nil, "alice", b.plan("alice", []string{"bob"}, now), nil, now)
	b.apply(viewOf("bob", &View{Seen: rollcall.MicrosOf(now)}), now)
	told := map[time.Time]string{}
	for end := now.Add(25 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		b.pulse(1, 0, now)
		b.refresh(nil, "alice", now)
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			if m.told > 0 {
				told[now] = string(m.data)
			}
		}
	}
	flip := time.Date(2000, 1, 3, 0, 1, 0, 345e6, time.UTC) // the first step of the first minute after a day
	if len(told) != 2 || !strings.Contains(told[flip], string(rollcall.StatusLongAgo)) {
		t.Errorf("told %v", told)
	}
}

func TestAReturnBeforeAnybodyWasToldIsNotTold(t *testing.T) {
	now := begin
	b := newBoard(boardConfig{generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Hour, outage: outage, maxPayload: 1 << 20}, now)
	b.loaded(now)
	bob := func(state rollcall.State) {
		b.apply(viewOf("bob", &View{State: state, Observed: rollcall.MicrosOf(now), Seen: rollcall.MicrosOf(now)}), now)
	}
	bob(rollcall.Active)
	b.subscribe(nil, "alice", b.plan("alice", []string{"bob", "carol"}, now), nil, now)
	before := string(b.get(nil, "alice", []string{"bob"}, nil, now))

	now = now.Add(10 * time.Minute)
	b.pulse(1, 0, now)
	b.apply(viewOf("carol", &View{State: rollcall.Active}), now) // opens the window
	b.flush(now, batch)
	bob(rollcall.Offline)
	now = now.Add(DefaultWindow / 2)
	bob(rollcall.Active)
	now = now.Add(DefaultWindow)
	for messages, _ := b.flush(now, batch); len(messages) > 0; messages, _ = b.flush(now, batch) {
		for _, m := range messages {
			if strings.Contains(string(m.data), "bob") {
				t.Errorf("told %s", m.data)
			}
		}
	}
	// The same version never stands for two things, so an answer says the same too.
	if after := string(b.get(nil, "alice", []string{"bob"}, nil, now)); after[strings.Index(after, "views"):] != before[strings.Index(before, "views"):] {
		t.Errorf("the answer was %s and is %s", before, after)
	}
}

func TestASmallMessageLimitSendsOneByOne(t *testing.T) {
	now := begin
	b := newBoard(boardConfig{generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Hour, outage: outage, maxPayload: 1024}, now)
	b.loaded(now)
	b.subscribe(nil, "alice", b.plan("alice", []string{"bob", "carol"}, now), nil, now)
	for _, id := range []string{"bob", "carol"} {
		b.apply(viewOf(id, &View{State: rollcall.Active}), now)
	}
	told := 0
	for range 2 {
		messages, _ := b.flush(now, batch)
		for _, m := range messages {
			if told += m.told; len(m.data) > 1024 {
				t.Errorf("%d bytes: %s", len(m.data), m.data)
			}
		}
		now = now.Add(DefaultWindow)
	}
	if told != 2 {
		t.Errorf("told %d changes", told)
	}
}

func TestAnInterestDoesNotEndWhileARequestIsStored(t *testing.T) {
	now := begin
	b := newBoard(boardConfig{generation: 1, defaults: Open, window: DefaultWindow, ttl: time.Minute, outage: outage, maxPayload: 1 << 20}, now)
	b.loaded(now)
	targets := make([]string, maxPart+1)
	for i := range targets {
		targets[i] = fmt.Sprint(i)
	}
	b.subscribe(nil, "alice", b.plan("alice", targets, now), nil, now)
	last := targets[maxPart]
	part := b.streams["alice"].watches[last].part

	now = now.Add(time.Minute - time.Millisecond)
	p := b.plan("alice", []string{last, "new"}, now)
	now = now.Add(time.Second) // the store takes its time
	b.flush(now, batch)
	b.subscribe(nil, "alice", p, nil, now)
	if s := b.streams["alice"]; len(s.watches) != maxPart+2 || s.watches[last].part != part {
		t.Errorf("%d targets, %s in part %d, want %d in part %d", len(s.watches), last, s.watches[last].part, maxPart+2, part)
	}
}

// What changed and changed back holds up no position: a viewer who may not see why would
// notice.
func TestPositionsDoNotWaitForNothing(t *testing.T) {
	now := begin
	b := newBoard(boardConfig{generation: 1, defaults: Open, window: time.Minute, ttl: time.Hour, outage: time.Hour, maxPayload: 1 << 20}, now)
	b.loaded(now)
	active, idle := viewOf("bob", &View{State: rollcall.Active}), viewOf("bob", &View{State: rollcall.Idle})
	b.apply(active, now)
	b.subscribe(nil, "alice", b.plan("alice", []string{"bob"}, now), nil, now)
	b.apply(idle, now)
	b.flush(now, batch) // opens the window
	for name, back := range map[string]bool{"changed": false, "changed back": true} {
		b.apply(active, now)
		if back {
			b.apply(idle, now)
		}
		b.confirmAll(now)
		messages, _ := b.flush(now, batch)
		want := 0 // the change is told, in a while
		if back {
			want = 1
		}
		if len(messages) != want {
			t.Errorf("%s: %d messages", name, len(messages))
		}
		b.apply(idle, now)
	}
}
