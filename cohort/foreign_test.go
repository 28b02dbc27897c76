package cohort_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A foreigner is a member by docs/cohort-protocol.md and nothing else: a KV bucket, JSON, and
// compare-and-set.
type foreigner struct {
	t        *testing.T
	kv       jetstream.KeyValue
	conn     string
	revision uint64
	released map[string]uint64
	parts    map[int]uint64 // what it has taken over, with the revision of its last write
}

type foreignPlan struct {
	Generation uint64
	Members    map[string]string
	Partitions []struct {
		Owner, Next string
		Generation  uint64
	}
}

func (f *foreigner) write(key string, value any, revision uint64) uint64 {
	f.t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		revision, err = f.kv.Update(f.t.Context(), key, data, revision)
	}
	if err != nil {
		f.t.Fatalf("writing %s: %v", key, err)
	}
	return revision
}

func (f *foreigner) beat(more map[string]any) {
	f.t.Helper()
	record := map[string]any{"conn": f.conn, "released": f.released}
	for k, v := range more {
		record[k] = v
	}
	f.revision = f.write("orders.member.foreign", record, f.revision)
}

// follow reads the plan and does what it says.
func (f *foreigner) follow() {
	f.t.Helper()
	entry, err := f.kv.Get(f.t.Context(), "orders.plan")
	if err != nil {
		f.t.Fatal(err)
	}
	var plan foreignPlan
	if err := json.Unmarshal(entry.Value(), &plan); err != nil {
		f.t.Fatal(err)
	}
	if plan.Members["foreign"] != f.conn {
		return
	}
	for n, p := range plan.Partitions {
		_, taken := f.parts[n]
		number := fmt.Sprint(n)
		switch {
		case p.Owner != "foreign":
			delete(f.parts, n)
			delete(f.released, number)
		case p.Next != "" && f.released[number] != p.Generation: // finish, commit, stop, release
			delete(f.parts, n)
			f.released[number] = p.Generation
			f.beat(nil)
		case p.Next == "" && !taken:
			f.parts[n] = f.take(n, p.Generation)
		}
	}
}

// take takes a partition over, and commits one more than it has found.
func (f *foreigner) take(n int, generation uint64) uint64 {
	f.t.Helper()
	key := fmt.Sprintf("orders.part.%d", n)
	var part struct{ Generation, Offset uint64 }
	var revision uint64
	if entry, err := f.kv.Get(f.t.Context(), key); err == nil {
		revision = entry.Revision()
		if err := json.Unmarshal(entry.Value(), &part); err != nil {
			f.t.Fatal(err)
		}
	}
	if part.Generation > generation {
		f.t.Fatalf("partition %d was given in generation %d and taken in %d", n, generation, part.Generation)
	}
	mine := map[string]any{"owner": "foreign", "conn": f.conn, "generation": generation, "offset": part.Offset}
	revision = f.write(key, mine, revision)
	mine["offset"] = part.Offset + 1
	return f.write(key, mine, revision)
}

// A member in another language shares with one of this package, gives away what it is asked for, and
// says goodbye.
func TestForeignMember(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 6)
		a := s.join("a")
		s.settled(time.Second, a)
		for _, n := range a.has() {
			if err := a.commit(n, 10); err != nil {
				t.Fatal(err)
			}
		}
		w := s.watch()
		js, err := jetstream.New(lab.Connect(t, s.server.NewLink()))
		if err != nil {
			t.Fatal(err)
		}
		f := &foreigner{t: t, conn: "anything random", released: make(map[string]uint64), parts: make(map[int]uint64)}
		if f.kv, err = js.KeyValue(t.Context(), "presence_cohort_workers"); err != nil {
			t.Fatal(err)
		}
		live := func(d time.Duration) {
			beaten := time.Now()
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
				if f.follow(); time.Since(beaten) > 2800*time.Millisecond {
					f.beat(nil)
					beaten = time.Now()
				}
			}
		}
		f.beat(nil) // registers
		live(20 * time.Second)
		if len(f.parts) != 3 || len(a.has()) != 3 {
			t.Fatalf("the foreigner has %v, the other %v", f.parts, a.has())
		}
		for n := range f.parts {
			if got := s.parts()[n]; got.Offset != 11 || got.Owner != "foreign" {
				t.Errorf("partition %d: %+v", n, got)
			}
		}
		b := s.join("b")
		live(time.Second)
		if len(f.parts) != 2 || len(a.has()) != 2 || len(b.has()) != 2 {
			t.Errorf("the foreigner has %v, the others %v and %v", f.parts, a.has(), b.has())
		}
		f.beat(map[string]any{"bye": "final"})
		s.settled(time.Second, a, b)
		if m := moves(w.seen()); m[machine.WhyBalance] != 5 || m[machine.WhyLeft] != 2 || len(m) != 2 {
			t.Errorf("moves %v", m)
		}
	})
}
