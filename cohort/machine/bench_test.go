package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// What a coordinator does in a second of a large group: a thousand members beat every three seconds, and
// the lease is renewed once.
func BenchmarkSecondOfAThousandMembers(b *testing.B) {
	var m Machine
	now, revision := time.Unix(0, 0), uint64(0)
	apply := func(kind subjects.CohortKind, id string, record any) {
		revision++
		m.Apply(Entry{Kind: kind, ID: id, Revision: revision, Time: now, Record: record})
	}
	apply(subjects.CohortGroupKind, "", &subjects.CohortGroup{Partitions: subjects.MaxPartitions, Timing: timing})
	second := func(s int) {
		now = now.Add(time.Second)
		for i := s % 3; i < 1000; i += 3 {
			apply(subjects.CohortMemberKind, fmt.Sprint("member", i), &subjects.CohortMember{Conn: "1", Load: float64(s)})
			if m.Changed() {
				m.Decide("c")
			}
		}
		apply(subjects.CohortLeaseKind, "", &subjects.CohortLease{Holder: "c", Conn: "1"})
		if d := m.Decide("c"); d.Plan != nil {
			apply(subjects.CohortPlanKind, "", d.Plan)
		}
	}
	for s := range 6 {
		second(s)
	}
	for s := 0; b.Loop(); s++ {
		second(s)
	}
	if v := m.View(); len(v.Members) != 1000 || v.Partitions[0].Owner == "" {
		b.Fatal("not settled")
	}
}
