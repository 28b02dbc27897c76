package feed_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/lab"
)

func TestMessagesComeInOrderAndInBatches(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		s.write(1, 5000)
		r := s.read(feed.Config{Start: 1}, nil)
		s.mustHave(r, time.Second, numbers(1, 5000))
		if n := len(r.batches); n >= 5000 {
			t.Errorf("%d batches", n)
		}
		if last := r.batches[len(r.batches)-1]; last.Pending != 0 {
			t.Errorf("%d pending behind the last message", last.Pending)
		}
		if !slices.IsSorted(r.seqs) {
			t.Error("out of order")
		}
		s.write(5001, 5003)
		s.mustHave(r, time.Second, numbers(1, 5003))
	})
}

func TestMessageCarriesWhatTheStoreKnows(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		time.Sleep(time.Hour)
		s.put("s.b", "text")
		stored := time.Now()
		r := s.read(feed.Config{Start: 1}, nil)
		s.mustHave(r, time.Hour, []string{"text"})
		if m := r.batches[0].Msgs[0]; m.Subject != "s.b" || m.Seq != 1 || !m.Time.Equal(stored) {
			t.Errorf("%+v", m)
		}
	})
}

func TestReadingStartsWhereItIsTold(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		s.write(1, 10)
		s.mustHave(s.read(feed.Config{Start: 8}, nil), time.Second, numbers(8, 10))
		s.mustHave(s.read(feed.Config{Start: 11}, nil), time.Second, nil)
	})
}

func TestEmptyStreamGivesTheEmptyBatch(t *testing.T) {
	for name, start := range map[string]uint64{"from the start": 1, "last per subject": 0} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := newScene(t, jetstream.StreamConfig{})
				r := s.read(feed.Config{Start: start}, nil)
				s.mustHave(r, time.Hour, nil)
				if len(r.batches) != 1 || len(r.batches[0].Msgs) != 0 || r.Position() != 0 {
					t.Fatalf("%+v, position %d", r.batches, r.Position())
				}
				s.write(1, 1)
				s.mustHave(r, time.Second, numbers(1, 1))
			})
		})
	}
}

func TestLastPerSubjectThenEverything(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		for _, m := range []struct{ subject, text string }{{"s.a", "old"}, {"s.b", "b"}, {"s.a", "a"}, {"s.c", "c"}} {
			s.put(m.subject, m.text)
		}
		r := s.read(feed.Config{}, nil)
		s.mustHave(r, time.Second, []string{"b", "a", "c"})
		s.put("s.a", "1")
		s.put("s.a", "2")
		s.mustHave(r, time.Second, []string{"b", "a", "c", "1", "2"})
		s.link.Cut()
		s.put("s.b", "3")
		s.put("s.b", "4")
		s.link.Heal()
		s.mustHave(r, time.Minute, []string{"b", "a", "c", "1", "2", "3", "4"})
	})
}

func TestSubjectsAreFiltered(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		for _, start := range []uint64{0, 1} {
			r := s.read(feed.Config{Start: start, Subjects: []string{"s.b", "s.c"}}, nil)
			time.Sleep(time.Second)
			s.put("s.a", "a")
			s.put("s.b", "b")
			s.put("s.c", "c")
			want := []string{"b", "c"}
			if start == 1 {
				want = []string{"b", "c", "b", "c"} // the first reader's too
			}
			s.mustHave(r, time.Second, want)
		}
	})
}

func TestSlowHandlerGetsLargerBatchesAndLosesNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		const minute = time.Minute // beyond every heartbeat and pull expiry
		r := s.read(feed.Config{Start: 1}, func(feed.Batch) error { time.Sleep(minute); return nil })
		for i := range 100 {
			s.write(100*i+1, 100*i+100)
			time.Sleep(time.Second)
		}
		s.mustHave(r, time.Hour, numbers(1, 10_000))
		largest := 0
		for _, b := range r.batches {
			largest = max(largest, len(b.Msgs))
		}
		if largest < 500 || largest > feed.Window {
			t.Errorf("the largest batch has %d messages", largest)
		}
	})
}

func TestHandlerErrorEndsTheReading(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		broken := errors.New("broken")
		s.write(1, 1)
		r := s.read(feed.Config{Start: 1}, func(b feed.Batch) error { return broken })
		if err := s.mustEnd(r); err != broken {
			t.Errorf("ended with %v", err)
		}
		if r.Position() != 0 {
			t.Errorf("position %d, although the handler did not take it", r.Position())
		}
	})
}

func TestCancellationEndsTheReading(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		for name, before := range map[string]func(){"connected": func() {}, "cut off": s.link.Cut} {
			r := s.read(feed.Config{Start: 1}, nil)
			time.Sleep(time.Second)
			before()
			time.Sleep(time.Minute)
			r.cancel()
			if err := s.mustEnd(r); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: ended with %v", name, err)
			}
			s.link.Heal()
			time.Sleep(time.Minute)
		}
	})
}
