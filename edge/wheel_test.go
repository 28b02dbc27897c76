package edge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWheelVisitsInTime(t *testing.T) {
	const width = 100 * time.Millisecond
	for _, tc := range []struct {
		name    string
		now, at instant // when booked, and for when
		want    instant // the visit, if the wheel is turned every 100 ms
	}{
		{"soon", 0, 50 * time.Millisecond, 100 * time.Millisecond},
		{"on the edge of a slot", 0, 300 * time.Millisecond, 300 * time.Millisecond},
		{"just after the edge", 0, 300*time.Millisecond + 1, 400 * time.Millisecond},
		{"overdue", time.Second, 200 * time.Millisecond, 1100 * time.Millisecond},
		{"now", time.Second, time.Second, 1100 * time.Millisecond},
		{"at the horizon", 0, time.Second, time.Second},
		{"beyond the horizon is cut to it", 0, time.Hour, 1200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWheel(width, time.Second)
			w.advance(tc.now, nil)
			c := &Conn{slot: unbooked}
			w.add(c, tc.at)
			for now := tc.now; ; now += width {
				visited := false
				w.advance(now, func(*Conn) { visited = true })
				if visited {
					if now != tc.want || w.booked != 0 {
						t.Errorf("visited at %v, want %v", now, tc.want)
					}
					return
				}
				if now > 2*time.Hour {
					t.Fatal("never visited")
				}
			}
		})
	}
}

// A wheel that stood still for long visits everyone at once, and nobody twice.
func TestWheelCatchesUp(t *testing.T) {
	w := newWheel(time.Second, 10*time.Second)
	for i := range 100 {
		w.add(&Conn{number: uint64(i), slot: unbooked}, time.Duration(i)*time.Second/10)
	}
	seen := map[uint64]int{}
	w.advance(time.Hour, func(c *Conn) {
		seen[c.number]++
		w.add(c, 2*time.Hour)
	})
	if len(seen) != 100 {
		t.Errorf("visited %d of 100", len(seen))
	}
	for number, n := range seen {
		if n != 1 {
			t.Errorf("%d visited %d times", number, n)
		}
	}
}

// Against a model: nobody is visited early, forgotten, or visited when removed.
func TestWheelModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width = 10 * time.Millisecond
		w := newWheel(width, 200*time.Millisecond)
		due, booked := map[*Conn]instant{}, map[*Conn]instant{}
		var now instant
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c := &Conn{slot: unbooked}
				due[c] = now + time.Duration(rapid.IntRange(-50, 200).Draw(t, "in"))*time.Millisecond
				booked[c] = now
				w.add(c, due[c])
			},
			"remove": func(t *rapid.T) {
				for c := range due {
					w.remove(c)
					w.remove(c)
					delete(due, c)
					return
				}
			},
			"advance": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 400).Draw(t, "by")) * time.Millisecond
				w.advance(now, func(c *Conn) {
					at, known := due[c]
					if !known || at > now {
						t.Fatalf("visited at %v, due %v, booked %v", now, at, known)
					}
					delete(due, c)
				})
				for c, at := range due {
					if max(at, booked[c])+2*width < now {
						t.Fatalf("due %v, not visited at %v", at, now)
					}
				}
			},
			"": func(t *rapid.T) {
				if w.booked != len(due) {
					t.Fatalf("%d booked, want %d", w.booked, len(due))
				}
			},
		})
	})
}

func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, r := newEndpoints(), roll{}
		var model []*Conn
		var number uint64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				user, device := fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "user")), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "device"))
				if e.get(user, device) != nil {
					return
				}
				number++
				c := &Conn{ids: user + device, split: uint8(len(user)), number: number}
				e.add(c)
				r.add(c)
				model = append(model, c)
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				c := model[i]
				model = slices.Delete(model, i, i+1)
				e.remove(c)
				r.remove(c)
				if r.get(c.number) != nil || e.get(c.User(), c.Device()) != nil {
					t.Fatal("still there")
				}
			},
			"": func(t *rapid.T) {
				if got := slices.Collect(r.from(0)); !slices.Equal(got, model) || r.len() != len(model) {
					t.Fatalf("%d listed, want %d", len(got), len(model))
				}
				for _, c := range model {
					if r.get(c.number) != c || e.get(c.User(), c.Device()) != c {
						t.Fatalf("%s lost", c.ids)
					}
				}
			},
		})
	})
}

// Two endpoints whose ids run together are two, also when their hashes meet.
func TestEndpointsWithTheSameHash(t *testing.T) {
	e := newEndpoints()
	var conns []*Conn
	for split := range 4 {
		c := &Conn{ids: "abc", split: uint8(split)}
		e.add(c)
		conns = append(conns, c)
	}
	for _, gone := range []int{1, 3, 0, 2} {
		for i, c := range conns {
			if got := e.get("abc"[:i], "abc"[i:]); got != c {
				t.Fatalf("%q %q: %v", "abc"[:i], "abc"[i:], got)
			}
		}
		e.remove(conns[gone])
		conns[gone] = nil
	}
	if len(e.first) != 0 {
		t.Error("not empty")
	}
}
