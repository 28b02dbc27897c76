package edge

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// toldBeat is a heartbeat as the history has it.
type toldBeat struct {
	conn  uint64
	at    rollcall.Micros
	flags uint8
}

func (w *world) history(shard int) (all []toldBeat, messages []*wire.Beats) {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), w.names.BeatsStream(shard))
	w.must(err)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(w.t.Context(), seq)
		w.must(err)
		head, beats, err := subjects.DecodeBeats(m.Data)
		w.must(err)
		messages = append(messages, head)
		for _, b := range beats {
			all = append(all, toldBeat{b.Conn, rollcall.Micros(head.Base).Add(time.Duration(b.Offset) * time.Millisecond), b.Flags})
		}
	}
	return all, messages
}

func TestHistoryKeepsEveryBeat(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		alice, bob := e.connect("alice", "phone"), e.connect("bob", "phone")
		var want []toldBeat
		beat := func(c *Conn, seq uint32, flags uint8) {
			c.Beat(seq)
			want = append(want, toldBeat{c.Number(), rollcall.MicrosOf(time.Now()), flags})
		}
		time.Sleep(20 * time.Second)
		beat(alice, 1, 0)
		w.must(alice.SetState(State{Foreground: true, Active: true}))
		time.Sleep(20 * time.Second)
		beat(alice, 2, subjects.FlagForeground|subjects.FlagActive)
		beat(bob, 1, 0)
		bob.Close() // its last beat must not be lost
		time.Sleep(30 * time.Second)
		got, messages := w.history(0)
		if len(messages) != 1 || messages[0].Incarnation != e.incarnation || messages[0].Dropped != 0 {
			t.Errorf("messages %v", messages)
		}
		if len(got) != len(want) {
			t.Fatalf("history %v, want %v", got, want)
		}
		for i := range want {
			early := want[i].at.Sub(got[i].at)
			if got[i].conn != want[i].conn || got[i].flags != want[i].flags || early < 0 || early > e.timing.resolution {
				t.Errorf("beat %d: %v, want %v", i, got[i], want[i])
			}
		}
	})
}

// A device that beats twenty times too often is collected from early, and what
// its ring cannot hold is counted.
func TestHistoryCountsWhatItDrops(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		c := e.connect("alice", "phone")
		for seq := range uint32(120) {
			time.Sleep(1500 * time.Millisecond)
			c.Beat(seq + 1)
		}
		time.Sleep(70 * time.Second)
		got, messages := w.history(0)
		var dropped uint64
		for _, m := range messages {
			dropped += m.Dropped
		}
		if s := e.Stats(); s.Beats != uint64(len(got)) || s.BeatsDropped != dropped || s.Beats+s.BeatsDropped != 120 {
			t.Errorf("%d told, %d told as dropped, %+v", len(got), dropped, s)
		}
	})
}

// The store is away for two hours: the newest messages are kept, the rest counted.
func TestHistoryOfAnOutageIsBounded(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		c := e.connect("alice", "phone")
		settle()
		e.cable.pull()
		const beats = 240
		for seq := range uint32(beats) {
			time.Sleep(30 * time.Second)
			c.Beat(seq + 1)
		}
		e.cable.plug()
		time.Sleep(2 * time.Minute)
		got, messages := w.history(0)
		var dropped uint64
		for _, m := range messages {
			dropped += m.Dropped
		}
		if len(got) < 2*maxParcels-2 || uint64(len(got))+dropped != beats {
			t.Errorf("%d told, %d told as dropped in %d messages", len(got), dropped, len(messages))
		}
	})
}

// Many connections in a server with a small limit: the history takes several
// messages, each below it.
func TestHistoryIsSplit(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		const limit, conns = 16 << 10, 20_000 // of three bytes and more each
		w := newWorldOf(t, 1, steady(), limit)
		e := w.start(Config{})
		for i := range conns {
			e.connect(fmt.Sprint("user", i), "phone").Beat(1)
		}
		time.Sleep(61 * time.Second)
		got, messages := w.history(0)
		if len(got) != conns || len(messages) < 4 {
			t.Errorf("%d beats in %d messages", len(got), len(messages))
		}
		for i := 1; i < len(got); i++ {
			if got[i].conn <= got[i-1].conn {
				t.Fatalf("connection %d after %d", got[i].conn, got[i-1].conn)
			}
		}
	})
}

// bytesPerBeat runs 10,000 devices on one edge for ten minutes and divides what
// the beats streams hold, messages as stored, by the heartbeats.
func bytesPerBeat(t *testing.T) float64 {
	params := rollcall.Default()
	w := newWorld(t, subjects.DefaultShards, params)
	e := w.start(Config{})
	random := e.config.rand(7)
	const devices, minutes = 10_000, 10
	interval := func() time.Duration {
		shortest := time.Duration(float64(params.Heartbeat) * (1 - params.Jitter))
		return shortest + time.Duration(random.Int64N(int64(params.Heartbeat-shortest)))
	}
	// One goroutine for all devices: a heap of timers would only slow the test.
	type device struct {
		conn *Conn
		next time.Duration
		seq  uint32
	}
	all := make([]device, devices)
	for i := range all {
		all[i] = device{conn: e.connect(fmt.Sprint("user", i), "phone"), next: time.Duration(random.Int64N(int64(params.Heartbeat)))}
	}
	sent := uint64(0)
	for now := time.Duration(0); now < minutes*time.Minute; now += 100 * time.Millisecond {
		time.Sleep(100 * time.Millisecond)
		for i := range all {
			if d := &all[i]; d.next <= now {
				d.seq++
				d.conn.Beat(d.seq)
				d.next += interval()
				sent++
			}
		}
	}
	w.must(e.Drain(t.Context()))
	var bytes uint64
	for shard := range subjects.DefaultShards {
		s, err := w.js.Stream(t.Context(), w.names.BeatsStream(shard))
		w.must(err)
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		w.must(err)
		bytes += info.State.Bytes
	}
	if s := e.Stats(); s.Beats != sent || s.BeatsDropped != 0 || s.Timeouts != 0 {
		t.Errorf("%d beats sent, %+v", sent, s)
	}
	return float64(bytes) / float64(sent)
}

func TestBytesPerHeartbeat(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		got := bytesPerBeat(t)
		t.Logf("%.2f bytes a heartbeat", got)
		if got > 4 {
			t.Errorf("%.2f bytes a heartbeat, the goal is 4", got)
		}
	})
}
