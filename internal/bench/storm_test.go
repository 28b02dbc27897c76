package bench

import (
	"slices"
	"testing"
	"time"
)

func at(milliseconds ...int) (w wave) {
	for _, ms := range milliseconds {
		w = append(w, arrival{at: time.Duration(ms) * time.Millisecond, bytes: 100, changes: 3})
	}
	return w
}

// Rests between waves do not count, and a hiccup within one does.
func TestWaves(t *testing.T) {
	waves := wavesOf(at(5, 6, 25, 300, 300, 310, 900))
	if len(waves) != 3 || len(waves[0]) != 3 || len(waves[1]) != 3 || len(waves[2]) != 1 {
		t.Fatalf("waves %v", waves)
	}
	all := total(waves)
	if all.took != 30*time.Millisecond || all.last-all.first != 895*time.Millisecond {
		t.Errorf("%s in waves from %s to %s", all.took, all.first, all.last)
	}
	if all.messages != 7 || all.changes != 21 || all.bytes != 700 {
		t.Errorf("total %+v", all)
	}
	if len(wavesOf(nil)) != 0 {
		t.Error("waves of nothing")
	}
}

// A backlog lasts while anything is due, in whatever order it became due.
func TestBacklog(t *testing.T) {
	for _, test := range []struct {
		name     string
		due, got []int
		want     int
	}{
		{"one after the other", []int{0, 10}, []int{5, 12}, 7},
		{"overlapping", []int{0, 3}, []int{5, 12}, 12},
		{"one within another", []int{1, 0}, []int{5, 12}, 12},
		{"waiting while nothing is due", []int{100, 101, 200}, []int{103, 104, 201}, 5},
		{"here before it seemed due", []int{10}, []int{9}, 0},
		{"nothing", nil, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			due := func(a arrival) time.Duration {
				i := slices.IndexFunc(test.got, func(ms int) bool { return a.at == time.Duration(ms)*time.Millisecond })
				return time.Duration(test.due[i]) * time.Millisecond
			}
			if got := backlog(at(test.got...), due); got != time.Duration(test.want)*time.Millisecond {
				t.Errorf("%s, want %d ms", got, test.want)
			}
		})
	}
}

// Receivers read just enough of a change, and of anything else nothing.
func TestReadChange(t *testing.T) {
	for text, want := range map[string]struct {
		user int
		now  standing
	}{
		`"user-0000042","status":"offline","version":7}`:   {42, offline},
		`"user-0004999","status":"online","state":"idle"}`: {4999, online},
		`"user-0004999","status":"unknown"}`:               {-1, barred},
		`"user-0004999","st`:                               {-1, barred},
		`"user-`:                                           {-1, barred},
	} {
		if user, now := readChange([]byte(text)); user != want.user || now != want.now {
			t.Errorf("%s: user %d %s", text, user, now)
		}
	}
}
