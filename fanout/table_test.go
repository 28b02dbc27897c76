package fanout

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

func TestTheOwnerHasTheHighestGeneration(t *testing.T) {
	now := time.Now()
	has := func(id string, generation uint64, heard time.Time, silent bool) *peer {
		return &peer{id: id, shards: map[int]uint64{3: generation}, heard: heard, silent: silent}
	}
	for _, row := range []struct {
		what string
		mine uint64
		all  []*peer
		want string
	}{
		{"nobody", 0, nil, ""},
		{"alone", 5, nil, "mine"},
		{"no peer has it", 5, []*peer{{id: "a", heard: now}}, "mine"},
		{"a peer has it", 0, []*peer{has("a", 5, now, false)}, "a"},
		{"the former owner is not heard to have lost it", 0, []*peer{has("a", 5, now, false), has("b", 6, now, false)}, "b"},
		{"this is the former owner", 5, []*peer{has("a", 6, now, false)}, "a"},
		{"a peer was", 6, []*peer{has("a", 5, now, false)}, "mine"},
		{"silent", 0, []*peer{has("a", 5, now, true)}, ""},
		{"not heard for long", 0, []*peer{has("a", 5, now.Add(-forgotten), false)}, ""},
		{"the successor is silent", 5, []*peer{has("a", 6, now, true)}, "mine"}, // as before it was heard of
	} {
		f := &Fanout{shards: map[int]*shard{}, peers: map[string]*peer{}}
		if row.mine > 0 {
			f.shards[3] = &shard{grant: rollcall.Grant{Shard: 3, Generation: row.mine}}
		}
		for _, p := range row.all {
			f.peers[p.id] = p
		}
		got := ""
		switch mine, other := f.ownerLocked(3); {
		case mine != nil && other != nil:
			got = "both"
		case mine != nil:
			got = "mine"
		case other != nil:
			got = other.id
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
	}
}

// Fanouts that know of each other name the same home, and each is that of a fair share of
// viewers. One that goes moves nobody else's.
func TestHomes(t *testing.T) {
	const fanouts, viewers = 5, 5000
	all := make([]*Fanout, fanouts)
	for i := range all {
		all[i] = &Fanout{id: fmt.Sprint("fanout-", i), peers: map[string]*peer{}}
	}
	for _, f := range all {
		for _, o := range all {
			if o != f {
				f.peers[o.id] = &peer{id: o.id, heard: time.Now()}
			}
		}
	}
	home := func(f *Fanout, viewer string) string {
		if p := f.homeOf(viewer); p != nil {
			return p.id
		}
		return f.id
	}
	homes, count := map[string]string{}, map[string]int{}
	for i := range viewers {
		v := fmt.Sprint("viewer-", i)
		homes[v] = home(all[0], v)
		count[homes[v]]++
		for _, f := range all {
			if got := home(f, v); got != homes[v] {
				t.Fatalf("%s: %s says %s, %s says %s", v, f.id, got, all[0].id, homes[v])
			}
		}
	}
	for id, n := range count {
		if n < viewers/fanouts*8/10 || n > viewers/fanouts*12/10 {
			t.Errorf("%s is the home of %d of %d", id, n, viewers)
		}
	}
	all[0].peers["fanout-4"].silent = true
	for v, was := range homes {
		if got := home(all[0], v); got != was && was != "fanout-4" {
			t.Errorf("%s moved from %s to %s", v, was, got)
		}
	}
}
