package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A scene has a writer and a reader, each on a link of its own.
type scene struct {
	t      *testing.T
	server *lab.Server
	writer jetstream.JetStream
	link   *lab.Link // the reader's
	js     jetstream.JetStream
}

func newScene(t *testing.T, config jetstream.StreamConfig) *scene {
	t.Helper()
	s := &scene{t: t, server: lab.NewServer(t)}
	s.link = s.server.NewLink()
	s.writer, s.js = open(t, s.server.NewLink()), open(t, s.link)
	config.Name, config.Subjects = "S", []string{"s.*"}
	if _, err := s.writer.CreateStream(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, link *lab.Link) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(lab.Connect(t, link))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// write publishes the numbers [from, to] to s.a.
func (s *scene) write(from, to int) {
	s.t.Helper()
	for i := from; i <= to; i++ {
		s.put("s.a", fmt.Sprint(i))
	}
}

func (s *scene) put(subject, text string) {
	s.t.Helper()
	if _, err := s.writer.Publish(context.Background(), subject, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// A reading is a reader that runs, and what it has handed over.
type reading struct {
	*feed.Reader
	cancel context.CancelFunc
	result chan error
	before func(feed.Batch) error // called first by the handler

	mu      sync.Mutex
	got     []string
	seqs    []uint64
	batches []feed.Batch
}

func (s *scene) read(config feed.Config, before func(feed.Batch) error) *reading {
	config.Stream = "S"
	ctx, cancel := context.WithCancel(context.Background())
	r := &reading{Reader: feed.New(s.js, config), cancel: cancel, result: make(chan error, 1), before: before}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.result <- r.Run(ctx, r.handle)
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *reading) handle(_ context.Context, b feed.Batch) error {
	if r.before != nil {
		if err := r.before(b); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, b)
	for _, m := range b.Msgs {
		r.got = append(r.got, string(m.Data))
		r.seqs = append(r.seqs, m.Seq)
	}
	return nil
}

// mustHave lets d pass and compares everything that was handed over so far.
func (s *scene) mustHave(r *reading, d time.Duration, want []string) {
	s.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, want) {
		s.t.Fatalf("handed over %v, want %v", r.got, want)
	}
	if n := len(r.seqs); n > 0 && r.Position() != r.seqs[n-1] {
		s.t.Fatalf("position %d after %d", r.Position(), r.seqs[n-1])
	}
}

// mustEnd waits for Run to return.
func (s *scene) mustEnd(r *reading) error {
	s.t.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(time.Minute):
		s.t.Fatal("still running after a minute")
		return nil
	}
}

func (s *scene) mustRollBack(r *reading, last uint64) {
	s.t.Helper()
	var rollback *feed.RollbackError
	if err := s.mustEnd(r); !errors.As(err, &rollback) || rollback.Stream != "S" || rollback.Last != last {
		s.t.Fatalf("ended with %v, want a rollback to %d", err, last)
	}
}

// numbers are the texts of [from, to].
func numbers(from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}
