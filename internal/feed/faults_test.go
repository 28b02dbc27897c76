package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// Whatever happens to the path, everything comes once and in order.
func TestFaultsLoseAndRepeatNothing(t *testing.T) {
	for name, fault := range map[string]func(s *scene, while func()){
		"cut": func(s *scene, while func()) {
			s.link.Cut()
			while()
			s.link.Heal()
		},
		"frozen for seconds": func(s *scene, while func()) {
			s.link.Freeze()
			while()
			time.Sleep(3 * time.Second)
			s.link.Thaw()
		},
		"frozen until the connection is given up": func(s *scene, while func()) {
			s.link.Freeze()
			while()
			time.Sleep(time.Minute)
			s.link.Thaw()
		},
		"server restarted": func(s *scene, while func()) {
			s.server.Stop()
			time.Sleep(10 * time.Minute)
			s.server.Start()
			time.Sleep(time.Second) // the writer reconnects
			while()
		},
		"slow": func(s *scene, while func()) {
			s.link.Delay(700 * time.Millisecond)
			while()
			time.Sleep(time.Minute)
			s.link.Delay(0)
		},
		"clock of the store set back": func(s *scene, while func()) {
			s.server.Skew(-time.Hour)
			s.link.Cut()
			while()
			s.link.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := newScene(t, jetstream.StreamConfig{})
				r := s.read(feed.Config{Start: 1}, nil)
				s.write(1, 100)
				s.mustHave(r, time.Second, numbers(1, 100))
				for i := range 5 {
					first := 100 + 50*i
					s.write(first+1, first+10) // under way when it happens
					fault(s, func() { s.write(first+11, first+40) })
					s.write(first+41, first+50)
					s.mustHave(r, 3*time.Minute, numbers(1, first+50))
				}
			})
		})
	}
}

func TestReaderWaitsForTheStream(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		if err := s.writer.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		r := s.read(feed.Config{Start: 1}, nil)
		time.Sleep(time.Hour)
		if _, err := s.writer.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
			t.Fatal(err)
		}
		s.write(1, 3)
		s.mustHave(r, 10*time.Second, numbers(1, 3))
	})
}

// deleteConsumers takes away what the readers read from.
func (s *scene) deleteConsumers() {
	s.t.Helper()
	stream, err := s.writer.Stream(context.Background(), "S")
	if err != nil {
		s.t.Fatal(err)
	}
	names := stream.ConsumerNames(context.Background())
	for name := range names.Name() {
		if err := stream.DeleteConsumer(context.Background(), name); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := names.Err(); err != nil {
		s.t.Fatal(err)
	}
}

func TestDeletedConsumerIsReplaced(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		s.write(1, 10)
		s.mustHave(r, time.Second, numbers(1, 10))
		s.deleteConsumers()
		s.write(11, 20)
		s.mustHave(r, 30*time.Second, numbers(1, 20))
	})
}

func TestKickReplacesTheConsumer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		s.write(1, 10)
		s.mustHave(r, time.Second, numbers(1, 10))
		for range 3 {
			r.Kick() // never blocks, further ones are one
		}
		time.Sleep(time.Second)
		stream, err := s.writer.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Consumers < 2 { // the old ones go by themselves when unused
			t.Errorf("%d consumers", info.State.Consumers)
		}
		s.write(11, 20)
		s.mustHave(r, time.Second, numbers(1, 20))
		time.Sleep(time.Hour)
		if info, err = stream.Info(t.Context()); err != nil || info.State.Consumers != 1 {
			t.Errorf("an hour later: %d consumers, %v", info.State.Consumers, err)
		}
	})
}

// Somebody who kicks every half second, because nothing comes, keeps a reader from nothing when
// the stream is back: the pause after failures is longer.
func TestKicksDuringAPauseAreOne(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		if err := s.writer.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		r := s.read(feed.Config{Start: 1}, nil)
		go func() {
			for t.Context().Err() == nil {
				time.Sleep(500 * time.Millisecond)
				r.Kick()
			}
		}()
		time.Sleep(time.Minute)
		if _, err := s.writer.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
			t.Fatal(err)
		}
		s.write(1, 3)
		s.mustHave(r, 10*time.Second, numbers(1, 3))
	})
}

func TestFastReaderOfASlowStreamKeepsItsConsumer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		time.Sleep(24 * time.Hour)
		if len(r.batches) != 1 { // each new consumer begins with an empty batch
			t.Errorf("%d consumers in a quiet day", len(r.batches))
		}
	})
}
