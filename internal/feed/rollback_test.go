package feed_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// loseTail lets the server come back with the stream as it was at the snapshot.
func (s *scene) loseTail(snapshot *lab.Snapshot) {
	s.t.Helper()
	s.server.Stop()
	s.server.Restore(snapshot)
	s.server.Start()
}

func TestLostTailIsARollback(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		s.write(1, 10)
		snapshot := s.server.Snapshot("S")
		s.write(11, 15)
		s.mustHave(r, time.Second, numbers(1, 15))
		s.loseTail(snapshot)
		s.mustRollBack(r, 10)
		if r.Position() != 15 {
			t.Errorf("position %d", r.Position())
		}
	})
}

// The sequences are taken again by other messages before the reader is back.
func TestReplacedTailIsARollback(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		s.write(1, 10)
		snapshot := s.server.Snapshot("S")
		s.write(11, 15)
		s.mustHave(r, time.Second, numbers(1, 15))
		s.link.Cut()
		s.loseTail(snapshot)
		time.Sleep(time.Second)
		s.write(101, 110)
		s.link.Heal()
		s.mustRollBack(r, 20)
	})
}

func TestLostMessagesThatWereNotReadAreNone(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		r := s.read(feed.Config{Start: 1}, nil)
		s.write(1, 10)
		s.mustHave(r, time.Second, numbers(1, 10))
		snapshot := s.server.Snapshot("S")
		s.link.Cut()
		s.write(101, 105)
		s.loseTail(snapshot)
		s.link.Heal()
		time.Sleep(time.Second)
		s.write(11, 12)
		s.mustHave(r, time.Minute, numbers(1, 12))
	})
}

// What an earlier process read counts too.
func TestRollbackBetweenTwoProcesses(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{})
		s.write(1, 10)
		stored := time.Now()
		s.mustHave(s.read(feed.Config{Start: 11, Previous: stored}, nil), time.Second, nil)
		s.mustRollBack(s.read(feed.Config{Start: 11, Previous: stored.Add(1)}, nil), 10)
		s.mustRollBack(s.read(feed.Config{Start: 12, Previous: stored}, nil), 10)
		s.mustHave(s.read(feed.Config{Start: 11}, nil), time.Second, nil)
	})
}

// A message that was trimmed or replaced says nothing about a rollback.
func TestTrimmedMessagesAreNoRollback(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, jetstream.StreamConfig{MaxMsgsPerSubject: 1})
		s.put("s.b", "b") // keeps the gap before the others inside the stream
		s.write(1, 10)
		r := s.read(feed.Config{Start: 5, Previous: time.Now().Add(-time.Hour)}, nil)
		s.mustHave(r, time.Second, numbers(10, 10))
		s.link.Cut()
		s.write(11, 12) // replaces what was read last
		s.link.Heal()
		s.mustHave(r, time.Minute, []string{"10", "12"})
	})
}
