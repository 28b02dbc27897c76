package cohort_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A scene is a group under test.
type scene struct {
	t          *testing.T
	server     *lab.Server
	partitions int
	timing     cohort.Timing
}

func newScene(t *testing.T, partitions int) *scene {
	s := &scene{t: t, server: lab.NewServer(t), partitions: partitions, timing: cohort.Worker()}
	return s
}

// A worker is a process that takes part: it works on what it has, and releases what it is asked for.
type worker struct {
	t      *testing.T
	id     string
	link   *lab.Link
	nc     *nats.Conn
	member *cohort.Member
	crash  context.CancelFunc
	ended  chan struct{} // the reader of assignments has ended

	greedy atomic.Bool // does not release what it is asked for

	mu          sync.Mutex
	now         cohort.Assignment
	assignments int
}

func (s *scene) config(id string) cohort.Config {
	c := cohort.Config{Group: "orders", ID: id, Partitions: s.partitions, Timing: s.timing}
	if os.Getenv("COHORT_LOG") != "" {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return c
}

func (s *scene) join(id string) *worker { return s.joinAs(s.config(id)) }

func (s *scene) joinAs(c cohort.Config) *worker {
	s.t.Helper()
	return s.joinOver(s.server.NewLink(), c)
}

func (s *scene) joinOver(link *lab.Link, c cohort.Config) *worker {
	s.t.Helper()
	w := s.enter(link, c)
	go w.work()
	s.t.Cleanup(w.kill)
	return w
}

// enter joins, and leaves it to the caller to read assignments.
func (s *scene) enter(link *lab.Link, c cohort.Config) *worker {
	s.t.Helper()
	w := &worker{t: s.t, id: c.ID, link: link, nc: lab.Connect(s.t, link), ended: make(chan struct{})}
	var ctx context.Context
	ctx, w.crash = context.WithCancel(context.Background())
	m, err := cohort.Join(ctx, w.nc, c)
	if err != nil {
		s.t.Fatalf("%s: %v", c.ID, err)
	}
	w.member = m
	return w
}

func (w *worker) work() {
	defer close(w.ended)
	for a := range w.member.Assignments() {
		w.mu.Lock()
		w.now = a
		w.assignments++
		w.mu.Unlock()
		for _, n := range a.Asked {
			if !w.greedy.Load() {
				w.member.Release(n)
			}
		}
	}
}

// kill ends the process without a word.
func (w *worker) kill() {
	w.link.Cut()
	w.crash()
	<-w.member.Done()
	<-w.ended
	w.nc.Close()
}

func (w *worker) leave() {
	w.t.Helper()
	if err := w.member.Leave(w.t.Context()); err != nil {
		w.t.Errorf("%s leaves: %v", w.id, err)
	}
	<-w.ended
}

// has is what the worker works on.
func (w *worker) has() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	numbers := []int{}
	for _, p := range w.now.Partitions {
		numbers = append(numbers, p.Number)
	}
	return numbers
}

func (w *worker) given() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.assignments
}

// owners says who works on each partition; it fails if two do.
func (s *scene) owners(workers ...*worker) map[int]string {
	s.t.Helper()
	owners := make(map[int]string)
	for _, w := range workers {
		for _, n := range w.has() {
			if owners[n] != "" {
				s.t.Errorf("partition %d: both %s and %s work on it", n, owners[n], w.id)
			}
			owners[n] = w.id
		}
	}
	return owners
}

// settled waits until these workers own everything evenly.
func (s *scene) settled(within time.Duration, workers ...*worker) time.Duration {
	s.t.Helper()
	began := time.Now()
	for {
		least, most, sum := s.partitions, 0, 0
		for _, w := range workers {
			n := len(w.has())
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		if sum == s.partitions && most-least <= 1 {
			return time.Since(began)
		}
		if time.Since(began) > within {
			text := ""
			for _, w := range workers {
				text += fmt.Sprintf("%s: %v; ", w.id, w.has())
			}
			s.t.Fatalf("not even and complete after %s: %s", within, text)
		}
		time.Sleep(time.Millisecond)
	}
}

func moved(before, after map[int]string) (n int) {
	for p, id := range before {
		if after[p] != id {
			n++
		}
	}
	return n
}

func (w *worker) commit(n int, offset uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return w.member.Commit(ctx, n, offset)
}

// A witness keeps what it sees of a group.
type witness struct {
	group *cohort.Group

	mu     sync.Mutex
	view   cohort.View
	events []cohort.Event
}

func (s *scene) watch() *witness {
	s.t.Helper()
	g, err := cohort.Open(s.t.Context(), lab.Connect(s.t, s.server.NewLink()), "", "", "orders")
	if err != nil {
		s.t.Fatal(err)
	}
	w := &witness{group: g}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Watch(ctx, func(v cohort.View, events []cohort.Event) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.view, w.events = v, append(w.events, events...)
			return nil
		})
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	time.Sleep(100 * time.Millisecond)
	return w
}

// seen returns the events since it was called last, those of this moment included.
func (w *witness) seen() []cohort.Event {
	time.Sleep(10 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// moves are the partitions among these events that went from one member to another, by reason.
func moves(events []cohort.Event) map[string]int {
	count := make(map[string]int)
	for _, e := range events {
		if e.About == machine.AboutPartition && e.From != e.To {
			count[e.Reason]++
		}
	}
	return count
}

// states are what became of a member, in order.
func states(events []cohort.Event, id string) (all []string) {
	for _, e := range events {
		if e.About == machine.AboutMember && e.Member == id {
			all = append(all, string(e.State)+" "+e.Reason)
		}
	}
	return all
}

// plans counts the generations among these events.
func plans(events []cohort.Event) int {
	generations := make(map[uint64]bool)
	for _, e := range events {
		if e.About == machine.AboutPartition {
			generations[e.Generation] = true
		}
	}
	return len(generations)
}

var errNotOwner = rollcall.ErrNotOwner
