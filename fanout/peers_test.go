package fanout_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// Several fanouts answer as one would: the same documents, refusals and messages, to
// viewers and users whose requests are handled by any of them.
func TestSeveralFanoutsAnswerLikeOne(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  fanout.Config
	}{{"policies decide", fanout.Config{}}, {"an application decides", fanout.Config{Sights: byLength}}} {
		want := transcript(t, 1, c.cfg)
		for _, n := range []int{2, 3} {
			got := transcript(t, n, c.cfg)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s, %d fanouts:\n%s\none:\n%s", c.name, n, got[i], want[i])
				}
			}
		}
	}
}

// byLength is an application that decides by how long the names are.
var byLength = decide(func(viewer, target string) rollcall.Granularity {
	return rollcall.Granularity((len(viewer) + len(target)) % 4)
})

// transcript is what is said while everything is done that can be requested.
func transcript(t *testing.T, fanouts int, cfg fanout.Config) (lines []string) {
	t.Run(fmt.Sprint(fanouts, " fanouts"), func(t *testing.T) {
		lab.Bubble(t, func(t *testing.T) {
			s := stage.New(t, 6)
			people := users(12)
			for i, u := range people {
				s.Set(u, rollcall.State(i%4))
			}
			s.StartSeveral(fanouts, cfg)
			for _, id := range []string{"v", "vera", "viktor", "violet", "vito", "völsung"} {
				lines = append(lines, everything(s, id, people)...)
			}
		})
	})
	return lines
}

// everything has one viewer do all that it can, on people whom others have used too.
func everything(s *stage.Stage, id string, people []string) (lines []string) {
	v := newRaw(s, id)
	request := func(subject string, body string) {
		m, err := v.nc.Request(subject, []byte(body), 10*time.Second)
		if err != nil {
			s.T.Fatalf("%s: %v", subject, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s\n  %s %q %s", subject, body, m.Header.Get(micro.ErrorCodeHeader), m.Header.Get(micro.ErrorHeader), normal(m.Data)))
	}
	all := append([]string{"nobody", id}, people...)
	op := func(op subjects.Op, b []byte) { request(s.Fabric.Request(op, id), string(b)) }
	policy := func(op subjects.PolicyOp, user, body string) {
		request(s.Fabric.Policy(op, user), body)
		time.Sleep(time.Second)
		lines = append(lines, fmt.Sprint("told ", told(v)))
	}
	op(subjects.OpRefresh, nil)
	op(subjects.OpGet, body(all...))
	op(subjects.OpSubscribe, body(all[:5]...))
	op(subjects.OpSubscribe, body(all...))
	op(subjects.OpSubscribe, body(people[0]))
	op(subjects.OpSubscribe, body(users(10_000)...))
	op(subjects.OpSubscribe, body())
	op(subjects.OpSubscribe, []byte("{"))
	op(subjects.OpGet, body(strings.Repeat("a", 129)))
	op(subjects.OpUnsubscribe, body(people[1], people[2]))
	op(subjects.OpGet, body(people[1], people[3]))
	op(subjects.OpSubscribe, body(all...))
	group := `{"groups":["` + id + `"]}`
	policy(subjects.PolicyGet, id, "")
	policy(subjects.PolicyStatus, id, `{"status":{"availability":"away","priority":3}}`)
	policy(subjects.PolicyStatus, id, `{"status":{"availability":"invisible"}}`)
	policy(subjects.PolicyClear, id, "")
	for _, bob := range []string{people[0], people[5]} {
		policy(subjects.PolicyStatus, bob, `{"status":{"availability":"invisible","priority":7}}`)
		policy(subjects.PolicyClear, bob, "")
		policy(subjects.PolicySet, bob, `{"everyone":"hidden"}`)
		policy(subjects.PolicyJoin, bob, group)
		policy(subjects.PolicyJoin, id, group)
		policy(subjects.PolicyBlock, bob, `{"users":["`+id+`"]}`)
		policy(subjects.PolicyUnblock, bob, `{"users":["`+id+`"]}`)
		policy(subjects.PolicyLeave, id, group)
		policy(subjects.PolicyContact, bob, `{"users":["`+id+`"]}`)
		policy(subjects.PolicyUncontact, bob, `{"users":["`+id+`"]}`)
		policy(subjects.PolicyAllow, bob, `{"users":["`+id+`"],"granularity":"coarse"}`)
		policy(subjects.PolicyReset, bob, `{"users":["`+id+`"]}`)
		policy(subjects.PolicyForget, bob, "")
		policy(subjects.PolicyAllow, bob, `{"users":["`+id+`"]}`)
	}
	op(subjects.OpRefresh, nil)
	op(subjects.OpUnsubscribe, nil)
	op(subjects.OpRefresh, nil)
	return lines
}

// normal is JSON without what counts or names takeovers.
func normal(data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	strip(v)
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range []string{"version", "generation", "seq"} {
			delete(v, k)
		}
		for _, inner := range v {
			strip(inner)
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}
