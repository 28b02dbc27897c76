package fanout

import (
	"flag"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
)

var secretSteps = flag.Int("secrets", 100_000, "at least so many random steps of state and policy TestIndistinguishable takes")

// What viewers receive does not depend on what they may not know. Two runs have one
// random history and differ in a secret only; whoever may not know the secret must
// receive the same in both: the same bytes in the same order at the same instants, be
// it answers, refusals or messages. Everybody else sees the difference, asks for other
// things, and must not give it away.
//
// Both runs are boards, with all that makes up timing: windows, rates, stalls, expiry,
// takeovers, reloads. Left out is what viewers share by nature: the processor's time,
// and the order of work beyond the limits of one flush.
//
// For more steps say -args -secrets=N.
func TestIndistinguishable(t *testing.T) {
	secrets := []struct {
		name      string
		observers [][]string
		make      func(t *rapid.T) secret
	}{
		{"absent", some, func(t *rapid.T) secret { return &unseen{kept{g: rollcall.Absent}} }},
		{"never existed", some, func(t *rapid.T) secret { return &unseen{kept{g: rollcall.Absent, ghost: true}} }},
		{"hidden", some, func(t *rapid.T) secret { return &unseen{kept{g: rollcall.Hidden}} }},
		{"the application is silent", some, func(t *rapid.T) secret { return &silence{unseen{kept{g: rollcall.Hidden}}} }},
		{"coarse", some, func(t *rapid.T) secret { return &vague{kept: kept{g: rollcall.Coarse}} }},
		{"exact", some, func(t *rapid.T) secret { return &seconds{kept{g: rollcall.Exact}} }},
		{"appears offline", [][]string{{"f", "v", "w"}}, func(t *rapid.T) secret { return &covered{} }},
	}
	total, want := 0, 0
	for _, s := range secrets {
		t.Run(s.name, func(t *testing.T) {
			each := (*secretSteps + len(secrets) - 1) / len(secrets)
			begun, changes, requests := time.Now(), 0, 0
			for changes < each {
				rapid.Check(t, func(t *rapid.T) {
					w := newTwins(t, s.make(t))
					w.observers = rapid.SampledFrom(s.observers).Draw(t, "observers")
					w.play()
					changes, requests = changes+w.changes, requests+w.requests
				})
			}
			total, want = total+changes, want+each
			t.Logf("%d steps of state and policy and %d requests in %s", changes, requests, time.Since(begun).Round(time.Millisecond))
		})
	}
	if total < want && !t.Failed() {
		t.Errorf("%d steps of state and policy, want %d", total, want)
	}
}

var some = [][]string{{"v"}, {"w"}, {"v", "w"}}
