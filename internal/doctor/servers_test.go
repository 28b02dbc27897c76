package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// What servers have answered in trouble, by name, as far as it is looked at; and what is said about it.
func TestWhatServersTell(t *testing.T) {
	const healthy = `"meta_cluster":{"leader":"n2","cluster_size":3,"replicas":[{"name":"n0","current":true},{"name":"n1","current":true}]}`
	for name, test := range map[string]struct {
		data map[string]string
		want []string
	}{
		"one server": {map[string]string{"n0": `{}`}, []string{"ok 1 server, none missing"}},
		"three":      {map[string]string{"n2": "{" + healthy + "}"}, []string{"ok 1 server, none missing"}},
		// A follower does not know how the others are.
		"a follower says it first": {map[string]string{
			"n0": `{"meta_cluster":{"leader":"n2","cluster_size":3,"replicas":[{"name":"n1","current":false},{"name":"n2","current":true}]}}`,
			"n2": "{" + healthy + "}",
		}, []string{"ok 2 servers, none missing"}},
		"one away": {map[string]string{
			"n2": `{"meta_cluster":{"leader":"n2","cluster_size":3,"replicas":[{"name":"n0","current":true},{"name":"n1","current":false,"offline":true,"active":22000000000}]}}`,
		}, []string{"problem of 3 servers that store, 1 away: n1 (last heard 22s ago); 'nats server raft peer-remove' takes one out that never comes back"}},
		"no majority": {map[string]string{
			"n0": `{"meta_cluster":{"leader":"","cluster_size":3,"replicas":[{"name":"n1","current":false},{"name":"n2","current":false}]}}`,
		}, []string{"problem no majority of the 3 servers is there, so nothing can be stored: away are n1, n2"}},
		"a full disk": {map[string]string{"n1": `{"disabled":true}`, "n2": "{" + healthy + "}"}, []string{
			"problem n1 has turned JetStream off, as it does when its disk is full or fails: make room, and start it again",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			e := examination{report: func(f Finding) { said = append(said, fmt.Sprint(f.Level, " ", f.Text)) }}
			var all []jetStream
			for _, server := range slices.Sorted(maps.Keys(test.data)) {
				var s jetStream
				if err := json.Unmarshal([]byte(test.data[server]), &s.Data); err != nil {
					t.Fatal(err)
				}
				s.Server.Name = server
				all = append(all, s)
			}
			e.cluster(all)
			if !slices.Equal(said, test.want) {
				t.Errorf("said %q", said)
			}
		})
	}
}

func TestFullness(t *testing.T) {
	for used, want := range map[uint64]Level{0: OK, 799: OK, 800: Warning, 899: Warning, 900: Problem, 1000: Problem, 2000: Problem} {
		if got := fullness(used, 1000); got != want {
			t.Errorf("%d of 1000 is %s, want %s", used, got, want)
		}
	}
	if got := fullness(1<<60, 0); got != OK {
		t.Errorf("without a limit: %s", got)
	}
}
