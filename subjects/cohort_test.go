package subjects_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestCohortKeysAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-zA-Z0-9 .*>=_/-]{1,20}`)
		group, member, n := id.Draw(t, "group"), id.Draw(t, "member"), rapid.IntRange(0, subjects.MaxPartitions-1).Draw(t, "partition")
		for key, want := range map[string][3]string{
			subjects.KeyCohort(group, subjects.CohortPlanKind): {group, "plan", ""},
			subjects.KeyCohortMember(group, member):            {group, "member", member},
			subjects.KeyCohortPart(group, n):                   {group, "part", key(n)},
		} {
			g, kind, of, err := subjects.ParseCohort(key)
			if got := [3]string{g, string(kind), of}; err != nil || got != want {
				t.Errorf("%q: %v %v, want %v", key, got, err, want)
			}
		}
	})
}

func key(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestForeignCohortKeysAreRefused(t *testing.T) {
	for _, key := range []string{"", "g", "g.", "g.plan.x", "g.member", "g.member.a.b", "g.part.01", "g.part.-1", "g.part.2048", "g.part.a", "shard.0", "g.other", "=.plan"} {
		if group, kind, id, err := subjects.ParseCohort(key); err == nil {
			t.Errorf("%q is read as %q %q %q", key, group, kind, id)
		}
	}
}

func workerTiming() subjects.CohortTiming {
	return subjects.CohortTiming{
		Heartbeat: 3 * time.Second, Timeout: 9 * time.Second, Sweep: time.Second, Lease: 4 * time.Second,
		Hold: 10 * time.Second, Settle: 200 * time.Millisecond, Release: 10 * time.Second,
	}
}

func TestCohortTimingInMilliseconds(t *testing.T) {
	group := subjects.CohortGroup{Partitions: 3, Timing: workerTiming()}
	data, err := json.Marshal(group)
	if err != nil || !strings.Contains(string(data), `"settle_ms":200`) {
		t.Fatal(string(data), err)
	}
	again, err := subjects.DecodeCohort[subjects.CohortGroup](data)
	if err != nil || *again != group {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestTimingThatMustFlapIsRefused(t *testing.T) {
	for name, change := range map[string]func(*subjects.CohortTiming){
		"one lost heartbeat":                  func(c *subjects.CohortTiming) { c.Timeout = 6 * time.Second },
		"one late renewal":                    func(c *subjects.CohortTiming) { c.Lease = 2 * time.Second },
		"dies with the coordinator":           func(c *subjects.CohortTiming) { c.Lease = 6 * time.Second },
		"no heartbeat":                        func(c *subjects.CohortTiming) { c.Heartbeat = 0 },
		"a fraction of a millisecond is lost": func(c *subjects.CohortTiming) { c.Hold = time.Microsecond },
		"for ever":                            func(c *subjects.CohortTiming) { c.Hold = 1000 * time.Hour },
	} {
		timing := workerTiming()
		if err := timing.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&timing)
		if err := timing.Validate(); !errors.Is(err, rollcall.ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCohortRecordsThatMakeNoSenseAreRefused(t *testing.T) {
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, subjects.ErrCohort) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{`{`, `{}`, `{"conn":"c","weight":-1}`, `{"conn":"c","weight":1001}`, `{"conn":"c","bye":"soon"}`, `{"conn":"c","idle_ms":-1}`} {
		_, err := subjects.DecodeCohort[subjects.CohortMember]([]byte(text))
		refused("member "+text, err)
	}
	for _, text := range []string{
		`{"members":{"":"c"}}`, `{"members":{"a":""}}`, `{"generation":1,"partitions":[{"owner":"a"}]}`,
		`{"generation":1,"members":{"a":"c"},"partitions":[{"owner":"a","generation":2}]}`,
	} {
		_, err := subjects.DecodeCohort[subjects.CohortPlan]([]byte(text))
		refused("plan "+text, err)
	}
	_, err := subjects.DecodeCohort[subjects.CohortGroup]([]byte(`{"partitions":0}`))
	refused("group", err)
	_, err = subjects.DecodeCohort[subjects.CohortPart]([]byte(`{"owner":"a"}`))
	refused("part", err)
	_, err = subjects.DecodeCohort[subjects.CohortLease]([]byte(`{"conn":"a"}`))
	refused("lease", err)
	_, err = subjects.DecodeCohort[subjects.CohortOrders]([]byte(`{"pinned":{"9999":"a"}}`))
	refused("orders", err)
}

func FuzzDecodeCohort(f *testing.F) {
	f.Add([]byte(`{"conn":"c","weight":2,"released":{"3":8}}`))
	f.Add([]byte(`{"generation":9,"by":"a","members":{"a":"c"},"partitions":[{"owner":"a","generation":9,"next":"b","why":"balance"}]}`))
	f.Add([]byte(`{"partitions":12,"timing":{"heartbeat_ms":3000,"timeout_ms":9000,"sweep_ms":1000,"lease_ms":4000}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if plan, err := subjects.DecodeCohort[subjects.CohortPlan](data); err == nil {
			for n, s := range plan.Partitions {
				if s.Owner != "" && plan.Members[s.Owner] == "" {
					t.Errorf("partition %d belongs to a stranger", n)
				}
			}
		}
		if group, err := subjects.DecodeCohort[subjects.CohortGroup](data); err == nil && group.Timing.Validate() != nil {
			t.Error("timing that flaps")
		}
		subjects.DecodeCohort[subjects.CohortMember](data)
		subjects.DecodeCohort[subjects.CohortOrders](data)
		subjects.DecodeCohort[subjects.CohortPart](data)
		subjects.DecodeCohort[subjects.CohortLease](data)
	})
}
