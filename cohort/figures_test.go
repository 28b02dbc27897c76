package cohort_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/natsd"
)

// growth is how many partitions may move when one member joins; package pcgroups has the same table.
var growth = []struct{ partitions, before, most int }{{12, 3, 3}, {64, 10, 6}, {256, 32, 8}, {1024, 32, 32}}

// One member joins a running group: what moves, how even the loads are, and when all is owned again. Then
// one crashes. Members and server are real, time is virtual.
func TestFigures(t *testing.T) {
	table := "partitions, members: moves by one more, least and most load | all owned after the join | after a crash\n"
	for _, c := range growth {
		lab.Bubble(t, func(t *testing.T) {
			s := newScene(t, c.partitions)
			var workers []*worker
			for i := range c.before {
				workers = append(workers, s.join(fmt.Sprintf("w%02d", i)))
			}
			s.settled(5*time.Second, workers...)
			before := s.owners(workers...)
			workers = append(workers, s.join("one more"))
			joined := s.settled(5*time.Second, workers...)
			n := moved(before, s.owners(workers...))
			if n > c.most {
				t.Errorf("%d partitions, %d→%d: %d moved, at most %d", c.partitions, c.before, c.before+1, n, c.most)
			}
			if joined > 500*time.Millisecond {
				t.Errorf("%d partitions: owned %s after the join", c.partitions, joined)
			}
			least, most := c.partitions, 0
			for _, w := range workers {
				least, most = min(least, len(w.has())), max(most, len(w.has()))
			}
			workers[0].kill() // the coordinator, most likely
			crashed := s.settled(11*time.Second, workers[1:]...)
			table += fmt.Sprintf("%5d, %2d→%2d: %2d, %d to %d | %s | %s\n", c.partitions, c.before, c.before+1, n, least, most, joined, crashed)
		})
	}
	t.Log(strings.TrimSpace(table))
}

// A stage is a group on a real server over loopback TCP, working on a stream.
type stage struct {
	b      *testing.B
	url    string
	admin  *nats.Conn
	worked chan string // ids of those who got a message
}

func newStage(b *testing.B, partitions int) *stage {
	b.Helper()
	server, err := natsd.Start(natsd.Config{StoreDir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Shutdown)
	s := &stage{b: b, url: server.ClientURL(), worked: make(chan string, 1000)}
	s.admin = s.connect()
	js, err := jetstream.New(s.admin)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.*.*"}, Storage: jetstream.MemoryStorage}); err != nil {
		b.Fatal(err)
	}
	for n := range partitions { // enough for every owner to find something
		for i := range 200 {
			if _, err := js.Publish(b.Context(), fmt.Sprintf("orders.%d.%d", n, i), nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := cohort.Create(b.Context(), s.admin, "", "", "orders", partitions, cohort.Worker()); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s *stage) connect() *nats.Conn {
	s.b.Helper()
	nc, err := nats.Connect(s.url)
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(nc.Close)
	return nc
}

// join starts a worker that takes one message for each grant, and returns what kills it.
func (s *stage) join(id string) (m *cohort.Member, kill func()) {
	s.b.Helper()
	nc := s.connect()
	js, err := jetstream.New(nc)
	if err != nil {
		s.b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m, err = cohort.Join(ctx, nc, cohort.Config{Group: "orders", ID: id})
	if err != nil {
		s.b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Own(ctx, func(ctx context.Context, g rollcall.Grant) error {
			first := true
			return consume(ctx, js, m, g.Shard, func(jetstream.Msg) {
				if !first {
					<-ctx.Done()
					return
				}
				first = false
				s.worked <- id
			})
		})
	}()
	kill = func() { nc.Close(); cancel(); <-ended }
	s.b.Cleanup(kill)
	return m, kill
}

// await waits until n grants have led to a message, of one worker or of any.
func (s *stage) await(n int, ids ...string) {
	s.b.Helper()
	for n > 0 {
		select {
		case id := <-s.worked:
			if len(ids) == 0 || slices.Contains(ids, id) {
				n--
			}
		case <-time.After(20 * time.Second):
			s.b.Fatal("no messages")
		}
	}
}

// From the call of Join to the first message of the stream, for a worker that joins three others.
func BenchmarkJoinToFirstMessage(b *testing.B) {
	s := newStage(b, 12)
	for _, id := range []string{"a", "b", "c"} {
		s.join(id)
	}
	time.Sleep(2 * time.Second)
	var worst time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		id := fmt.Sprint("joins", i)
		for len(s.worked) > 0 {
			<-s.worked
		}
		b.StartTimer()
		began := time.Now()
		m, kill := s.join(id)
		s.await(1, id)
		worst = max(worst, time.Since(began))
		b.StopTimer()
		time.Sleep(100 * time.Millisecond)
		if err := m.Retire(b.Context()); err != nil {
			b.Fatal(err)
		}
		kill()
		time.Sleep(500 * time.Millisecond)
		b.StartTimer()
	}
	b.ReportMetric(worst.Seconds(), "worst-s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/join")
	b.ReportMetric(0, "ns/op")
}

// From the crash of one of four workers until each of its partitions has led to a message of another.
func BenchmarkCrashToOwned(b *testing.B) {
	s := newStage(b, 12)
	for _, id := range []string{"a", "b", "c"} {
		s.join(id)
	}
	var worst time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		_, kill := s.join(fmt.Sprint("crashes", i))
		time.Sleep(2*time.Second + time.Duration(i%3)*time.Second) // at another moment of its heartbeat
		for len(s.worked) > 0 {
			<-s.worked
		}
		b.StartTimer()
		began := time.Now()
		kill()
		s.await(3, "a", "b", "c")
		worst = max(worst, time.Since(began))
	}
	b.ReportMetric(worst.Seconds(), "worst-s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/crash")
	b.ReportMetric(0, "ns/op")
}
