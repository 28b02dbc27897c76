package machine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall/subjects"
)

var timing = subjects.CohortTiming{
	Heartbeat: 3 * time.Second, Timeout: 9 * time.Second, Sweep: time.Second, Lease: 4 * time.Second,
	Hold: 10 * time.Second, Settle: 200 * time.Millisecond, Release: 10 * time.Second, Stall: 30 * time.Second,
}

// A world is a store, its members, and a coordinator who may be replaced at any moment. Its members
// are as simple as can be: they know the plan that is stored.
type world struct {
	t        *rapid.T
	now      time.Time
	revision uint64
	last     map[string]Entry // by key
	machine  *Machine
	office   int
	conns    int
	members  map[string]*person
	plan     *subjects.CohortPlan
	asked    map[int]time.Time
	alive    time.Time // since when somebody could be declared dead
}

type person struct {
	subjects.CohortMember
	beats  bool // it speaks
	seen   time.Time
	deaf   bool // it releases nothing
	stored bool
}

func newWorld(t *rapid.T, partitions int) *world {
	w := &world{t: t, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), last: make(map[string]Entry), members: make(map[string]*person), asked: make(map[int]time.Time)}
	w.machine = new(Machine)
	w.store(subjects.CohortGroupKind, "", &subjects.CohortGroup{Partitions: partitions, Timing: timing}, "")
	w.elect()
	return w
}

func (w *world) store(kind subjects.CohortKind, id string, record any, reason string) {
	w.revision++
	e := Entry{Kind: kind, ID: id, Revision: w.revision, Time: w.now, Record: record, Reason: reason}
	w.last[string(kind)+"."+id] = e
	before, next := w.machine.Decide("c"), w.machine.Next()
	w.machine.Apply(e)
	if w.machine.Changed() || !next.IsZero() && !next.After(e.Time) {
		return
	}
	if after := w.machine.Decide("c"); !reflect.DeepEqual(after.Remove, before.Remove) || (after.Plan == nil) != (before.Plan == nil) {
		w.t.Fatalf("%+v changed nothing, but the decision from %+v to %+v", e, before, after)
	}
}

// elect replaces the coordinator by one that knows the last record of each key and nothing else.
func (w *world) elect() {
	w.office++
	w.machine = new(Machine)
	for _, e := range slices.SortedFunc(maps.Values(w.last), func(a, b Entry) int { return int(a.Revision) - int(b.Revision) }) {
		w.machine.Apply(e)
	}
	w.alive = w.now.Add(timing.Heartbeat)
	w.tick()
}

func (w *world) tick() {
	w.store(subjects.CohortLeaseKind, "", &subjects.CohortLease{Holder: "c", Conn: fmt.Sprint("office", w.office)}, "")
}

// pass lets time pass, a sweep at a time: members beat, and the coordinator decides.
func (w *world) pass(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until); {
		step := min(until.Sub(w.now), timing.Sweep)
		if next := w.machine.Next(); !next.IsZero() && next.After(w.now) && next.Sub(w.now) < step {
			step = next.Sub(w.now)
		}
		w.now = w.now.Add(step)
		for _, id := range slices.Sorted(maps.Keys(w.members)) {
			if p := w.members[id]; p.stored && p.beats && p.Bye == "" && w.now.Sub(p.seen) >= timing.Heartbeat-timing.Sweep {
				w.beat(id)
			}
		}
		w.tick()
		w.decide()
	}
}

func (w *world) beat(id string) {
	p := w.members[id]
	p.Released = w.released(id)
	record := p.CohortMember
	p.seen = w.now
	w.store(subjects.CohortMemberKind, id, &record, "")
}

// released is what a member gives up of what it is asked for.
func (w *world) released(id string) map[int]uint64 {
	p, released := w.members[id], make(map[int]uint64)
	if w.plan == nil || p.deaf {
		return released
	}
	for n, s := range w.plan.Partitions {
		if s.Owner == id && w.plan.Members[id] == p.Conn && s.Next != "" {
			released[n] = s.Generation
		}
	}
	return released
}

// decide carries out what the machine decides until it has nothing more to say.
func (w *world) decide() {
	for range 20 {
		d := w.machine.Decide("c")
		if len(d.Remove) == 0 && d.Plan == nil {
			return
		}
		for _, r := range d.Remove {
			w.remove(r)
		}
		if d.Plan != nil {
			w.adopt(d)
		}
		for _, id := range slices.Sorted(maps.Keys(w.members)) { // who is asked answers at once
			if p := w.members[id]; p.stored && p.beats && p.Bye == "" && len(w.released(id)) > 0 {
				w.beat(id)
			}
		}
	}
	w.t.Fatalf("the coordinator does not come to rest: %+v", w.machine.Decide("c"))
}

// remove checks that a member had it coming.
func (w *world) remove(r Removal) {
	p := w.members[r.ID]
	if e := w.last["member."+r.ID]; e.Revision != r.Revision {
		w.t.Fatalf("%s is removed at revision %d, and has %d", r.ID, r.Revision, e.Revision)
	}
	silent := w.now.Sub(p.seen)
	switch {
	case p.Bye == subjects.ByeFinal:
	case p.Bye == subjects.ByeRestart && silent < timing.Hold:
		w.t.Fatalf("%s said goodbye %s ago", r.ID, silent)
	case p.Bye == "" && (silent < timing.Timeout || w.now.Before(w.alive)):
		w.t.Fatalf("%s was heard %s ago", r.ID, silent)
	}
	p.stored = false
	w.store(subjects.CohortMemberKind, r.ID, nil, r.Reason)
}

// adopt checks each change of an owner against the plan before, by the rules as the package's doc says them.
func (w *world) adopt(d Decision) {
	before := w.plan
	if before == nil {
		before = &subjects.CohortPlan{Partitions: make([]subjects.CohortShare, len(d.Plan.Partitions))}
	} else if e := w.last["plan."]; d.Expects != e.Revision {
		w.t.Fatalf("a plan for revision %d, it is %d", d.Expects, e.Revision)
	}
	if d.Plan.Generation <= before.Generation {
		w.t.Fatalf("generation %d after %d", d.Plan.Generation, before.Generation)
	}
	for n, s := range d.Plan.Partitions {
		was, since := before.Partitions[n], w.asked[n]
		if s.Owner != "" && (w.members[s.Owner] == nil || !w.members[s.Owner].stored) {
			w.t.Fatalf("partition %d goes to %s, who is not there", n, s.Owner)
		}
		if s.Next == "" || s.Next != was.Next || s.Owner != was.Owner {
			delete(w.asked, n)
		}
		if s.Next != "" {
			if _, asked := w.asked[n]; !asked {
				w.asked[n] = w.now
			}
		}
		if s.Owner == was.Owner && s.Generation == was.Generation || was.Owner == "" {
			continue
		}
		if s.Owner != "" && s.Generation != d.Plan.Generation {
			w.t.Fatalf("partition %d was given without a new generation: %+v → %+v", n, was, s)
		}
		p := w.members[was.Owner]
		switch {
		case !p.stored, p.Conn != before.Members[was.Owner]: // gone, or another connection
		case p.Bye != "" && was.Next != "": // it was to go anyway
		case p.Released[n] == was.Generation:
		case s.Why == WhyOverdue && was.Next != "" && w.now.Sub(since) >= timing.Release:
		default:
			w.t.Fatalf("partition %d was taken from %s, who lives and has not released it: %+v → %+v", n, was.Owner, was, s)
		}
	}
	w.plan = d.Plan
	w.store(subjects.CohortPlanKind, "", d.Plan, "")
}

func (w *world) join(id string, weight int) {
	p := w.members[id]
	if p == nil {
		p = new(person)
		w.members[id] = p
	}
	w.conns++
	*p = person{CohortMember: subjects.CohortMember{Conn: fmt.Sprint("conn", w.conns), Weight: weight}, beats: true, stored: true}
	w.beat(id)
}

// Members join, fall silent, speak again, say goodbye, restart, are drained, and
// coordinators come and go. Nobody is declared dead too early, nothing is taken from whoever has not given
// it, and in the end everything is owned evenly and nothing is left to do.
func TestGroupsKeepTheirRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 24).Draw(t, "partitions"))
		ids := []string{"a", "b", "c", "d", "e"}
		orders := subjects.CohortOrders{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "who")
			p := w.members[id]
			present := p != nil && p.stored && p.Bye == ""
			switch what := rapid.SampledFrom([]string{"join", "join", "silent", "speaks", "restart", "bye", "final", "elect", "deaf", "drain", "pass", "pass"}).Draw(t, "what"); {
			case what == "join":
				w.join(id, rapid.IntRange(1, 3).Draw(t, "weight"))
			case what == "silent" && present:
				p.beats = false
			case what == "speaks" && present:
				p.beats = true
			case what == "restart" && present:
				w.join(id, p.Weight)
			case what == "bye" && present:
				p.Bye = subjects.ByeRestart
				w.beat(id)
			case what == "final" && present:
				p.Bye = subjects.ByeFinal
				w.beat(id)
			case what == "elect":
				w.elect()
			case what == "deaf" && present:
				p.deaf = !p.deaf
			case what == "drain":
				if i := slices.Index(orders.Drained, id); i >= 0 {
					orders.Drained = slices.Delete(slices.Clone(orders.Drained), i, i+1)
				} else {
					orders.Drained = append(slices.Clone(orders.Drained), id)
				}
				w.store(subjects.CohortOrdersKind, "", &subjects.CohortOrders{Drained: orders.Drained}, "")
			case what == "pass":
				w.pass(time.Duration(rapid.IntRange(1, 15000).Draw(t, "ms")) * time.Millisecond)
			}
			w.decide()
		}
		w.mustSettle(orders)
	})
}

func (w *world) mustSettle(orders subjects.CohortOrders) {
	w.pass(time.Minute)
	total, weight := len(w.plan0().Partitions), 0
	var takers []string
	for id, p := range w.members {
		if p.stored && !p.beats || p.stored && p.Bye != "" {
			w.t.Fatalf("%s is still there: %+v", id, p)
		}
		if p.stored && !slices.Contains(orders.Drained, id) {
			takers = append(takers, id)
			weight += p.Weight
		}
	}
	count := make(map[string]int)
	for n, s := range w.plan0().Partitions {
		if count[s.Owner]++; s.Next != "" && len(takers) > 0 {
			w.t.Fatalf("partition %d is still under way: %+v", n, s)
		}
	}
	for _, id := range takers {
		share := total * w.members[id].Weight
		if count[id] < share/weight || count[id] > (share+weight-1)/weight {
			w.t.Fatalf("%s has %d of %d, its weight is %d of %d", id, count[id], total, w.members[id].Weight, weight)
		}
		delete(count, id)
	}
	if len(takers) > 0 && len(count) > 0 {
		w.t.Fatalf("left with others: %v", count)
	}
	w.elect() // who knows only the records has nothing to change
	if d := w.machine.Decide("c"); d.Plan != nil || len(d.Remove) > 0 {
		w.t.Fatalf("a new coordinator changes what is settled: %+v", d)
	}
}

func (w *world) plan0() *subjects.CohortPlan {
	if w.plan == nil {
		return &subjects.CohortPlan{}
	}
	return w.plan
}

// A member is heard until 0 and the coordinator dies with it. Its successor, elected at 8, gives it the
// time for one more heartbeat before it is declared dead.
func TestNewCoordinatorGivesEverybodyTime(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, 0).Add(time.Duration(s * float64(time.Second))) }
	var m Machine
	m.Apply(Entry{Kind: subjects.CohortGroupKind, Time: at(0), Record: &subjects.CohortGroup{Partitions: 1, Timing: timing}})
	m.Apply(Entry{Kind: subjects.CohortMemberKind, ID: "a", Time: at(0), Revision: 2, Record: &subjects.CohortMember{Conn: "1"}})
	lease := func(conn string, s float64) {
		m.Apply(Entry{Kind: subjects.CohortLeaseKind, Time: at(s), Record: &subjects.CohortLease{Holder: "c", Conn: conn}})
	}
	removed := func() bool { return len(m.Decide("c").Remove) > 0 }
	lease("first", 0)
	lease("second", 8)
	for s := 9.0; s <= 12; s++ {
		if lease("second", s); removed() != (s >= 11) {
			t.Errorf("at %v: removed %v", s, removed())
		}
	}
	// A coordinator that could not renew its lease for long concludes that nobody could write.
	m.Apply(Entry{Kind: subjects.CohortMemberKind, ID: "a", Time: at(13), Revision: 9, Record: &subjects.CohortMember{Conn: "1"}})
	lease("second", 14)
	for s := 600.0; s <= 610; s++ {
		if lease("second", s); removed() != (s >= 609) {
			t.Errorf("after an outage, at %v: removed %v", s, removed())
		}
	}
}
