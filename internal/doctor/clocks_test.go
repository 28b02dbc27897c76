package doctor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What leaders' clocks have shown, how far ahead of ours and after how long an answer; and what is
// said about it.
func TestClocksOfLeaders(t *testing.T) {
	const ms = time.Millisecond
	type reading struct {
		leader      string
		ahead, took time.Duration
	}
	for name, test := range map[string]struct {
		readings []reading
		want     []string
	}{
		"as one": {[]reading{{"n0", 0, 20 * ms}, {"n1", 200 * ms, 20 * ms}}, []string{"ok the clocks of 2 leaders are within 200ms"}},
		"just enough for a warning": {[]reading{{"n0", 0, 20 * ms}, {"n1", 271 * ms, 20 * ms}, {"n0", 5 * ms, 20 * ms}}, []string{
			"warning the clock of n1 is at least 251ms ahead of that of n0",
		}},
		"not more than the warning": {[]reading{{"n0", 0, 20 * ms}, {"n1", 270 * ms, 20 * ms}}, []string{"ok the clocks of 2 leaders are within 270ms"}},
		"just enough for a problem": {[]reading{{"n0", -1000 * ms, 20 * ms}, {"n1", 1021 * ms, 20 * ms}}, []string{
			"problem the clock of n1 is at least 2.001s ahead of that of n0: leases end too early or too late when a leader changes",
		}},
		"not more than the problem": {[]reading{{"n0", -1000 * ms, 20 * ms}, {"n1", 1020 * ms, 20 * ms}}, []string{
			"warning the clock of n1 is at least 2s ahead of that of n0",
		}},
		"all are ahead of us": {[]reading{{"n0", 5000 * ms, 0}, {"n1", 9000 * ms, 0}}, []string{
			"problem the clock of n1 is at least 4s ahead of that of n0: leases end too early or too late when a leader changes",
			"note this machine's clock is 5s off the store's; the fabric does not mind",
		}},
		"the way explains it": {[]reading{{"n0", 0, 20 * ms}, {"n1", 3000 * ms, 6000 * ms}}, []string{"ok the clocks of 2 leaders are within 3.01s"}},
		"a slow answer hides nothing": {[]reading{{"n0", 0, 20 * ms}, {"n1", 3000 * ms, 20 * ms}, {"n1", 3500 * ms, 8000 * ms}, {"n0", -500 * ms, 8000 * ms}}, []string{
			"problem the clock of n1 is at least 2.98s ahead of that of n0: leases end too early or too late when a leader changes",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			e := examination{report: func(f Finding) { said = append(said, fmt.Sprint(f.Level, " ", f.Text)) }}
			sent := time.Now()
			for _, r := range test.readings {
				info := &jetstream.StreamInfo{TimeStamp: sent.Add(r.took/2 + r.ahead), Cluster: &jetstream.ClusterInfo{Leader: r.leader}}
				e.infos = append(e.infos, stream{StreamInfo: info, sent: sent, received: sent.Add(r.took)})
			}
			e.clocks(t.Context())
			if !slices.Equal(said, test.want) {
				t.Errorf("said %q", said)
			}
		})
	}
}
