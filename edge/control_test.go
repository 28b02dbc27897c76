package edge

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// tell an edge something in a keeper's name.
func (w *world) tell(edge string, c *wire.Control) {
	w.t.Helper()
	c.Version = subjects.WireVersion
	data, err := subjects.EncodeControl(c)
	w.must(err)
	w.must(w.nc.Publish(w.names.EdgeControl(edge), data))
	w.must(w.nc.Flush())
	settle()
}

func TestSuperseded(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		alice, bob := e.connect("alice", "phone"), e.connect("bob", "phone")
		alice.Beat(1)
		settle()
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_SUPERSEDED, Incarnation: e.incarnation, Conns: []uint64{alice.Number(), 99}})
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_SUPERSEDED, Incarnation: e.incarnation, Conns: []uint64{alice.Number()}})
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_SUPERSEDED, Incarnation: e.incarnation - 1, Conns: []uint64{bob.Number()}})
		w.wantReplay(0, "gw", 1)
		said := w.said(0, "gw")
		if last := said[len(said)-1]; last.Kind != ended || last.Reason != wire.Reason_REASON_REPLACED {
			t.Errorf("said %v", last)
		}
		if !alice.Gone() || bob.Gone() || alice.Beat(2) || len(e.superseded) != 1 || e.superseded[0] != alice {
			t.Errorf("alice gone %v, bob gone %v, told the host of %d", alice.Gone(), bob.Gone(), len(e.superseded))
		}
	})
}

func TestTheNewConnectionOfAnEndpointWins(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		first := e.connect("alice", "phone")
		other := e.connect("alice", "laptop")
		settle()
		second := e.connect("alice", "phone")
		third := e.connect("alice", "phone")
		settle()
		said := w.said(0, "gw")
		if len(said) == 7 { // a frame went out before the third came, and the second was told
			wantKinds(t, said[4:6], opened, ended)
			if said[4].Conn != second.Number() || said[5].Conn != second.Number() {
				t.Errorf("said %v", said[4:6])
			}
			said = append(said[:4:4], said[6])
		} else if second.Epoch() != 0 {
			t.Errorf("the second was never told and has the epoch %d", second.Epoch())
		}
		wantKinds(t, said, hello, opened, opened, ended, opened)
		if said[3].Conn != first.Number() || said[4].Conn != third.Number() || other.Gone() {
			t.Errorf("said %v", said[3:])
		}
		if len(e.superseded) != 2 || e.superseded[0] != first || e.superseded[1] != second {
			t.Errorf("superseded %v", e.superseded)
		}
		if first.Epoch() >= third.Epoch() {
			t.Errorf("epochs %d, %d, %d", first.Epoch(), second.Epoch(), third.Epoch())
		}
	})
}

// A roster of many frames, while connections come, change and go.
func TestRosterAmongChanges(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		conns := make([]*Conn, 3000)
		for i := range conns {
			conns[i] = e.connect(fmt.Sprint("user", i), "phone")
		}
		settle()
		e.cable.pull() // so that all of this meets in one roster
		e.pipelines[0].resync()
		for i := range 100 {
			conns[i*30].Close()
			w.must(conns[i*30+1].SetState(State{Foreground: true}))
			e.connect(fmt.Sprint("new", i), "phone")
		}
		e.cable.plug()
		time.Sleep(5 * time.Second)
		w.wantReplay(0, "gw", 3000)
		lines := 0
		for _, s := range w.said(0, "gw") {
			if s.Kind == rosterLine {
				lines++
			}
		}
		if lines < 2900 {
			t.Errorf("%d connections listed", lines)
		}
	})
}

func TestRostersAreNotQueuedTwice(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		e.cable.pull()
		for range 10 {
			e.pipelines[0].resync()
		}
		e.cable.plug()
		time.Sleep(5 * time.Second)
		wantKinds(t, w.said(0, "gw"), hello, opened, rosterBegin, rosterLine, rosterEnd, renewed)
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_RESYNC, Incarnation: e.incarnation})
		if s := e.Stats(); s.Resyncs != 2 {
			t.Errorf("%d rosters", s.Resyncs)
		}
	})
}

func TestUnregistered(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		shard := w.names.Shard("alice")
		settle()
		for s := range 2 {
			w.tell("gw", &wire.Control{Kind: wire.Control_KIND_UNREGISTERED, Shard: uint32(s), Incarnation: e.incarnation})
		}
		wantKinds(t, w.said(shard, "gw"), hello, opened, hello, rosterBegin, rosterLine, rosterEnd)
		wantKinds(t, w.said(1-shard, "gw")) // nothing to say where there is nobody
		if s := e.Stats(); s.Unregistered != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMalformedControl(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		w.must(w.nc.Publish(w.names.EdgeControl("gw"), []byte("\xff\xff")))
		w.must(w.nc.Publish(w.names.EdgeControl("gw"), nil))
		w.tell("gw", &wire.Control{Kind: 77, Incarnation: e.incarnation})
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_RESYNC, Shard: 1, Incarnation: e.incarnation})
		w.tell("gw", &wire.Control{Kind: wire.Control_KIND_RESYNC, Shard: 1 << 31, Incarnation: e.incarnation})
		if s := e.Stats(); s.Malformed != 5 || s.Resyncs != 0 {
			t.Errorf("%+v", s)
		}
	})
}
