package shards_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// moved is how many shards have another generation.
func moved(before, after map[int]uint64) (n int) {
	for shard, generation := range after {
		if before[shard] != generation {
			n++
		}
	}
	return n
}

func TestShardsSpreadAndMoveLittle(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 8)
		a, b := sc.start("a"), sc.start("b")
		time.Sleep(2 * time.Second)
		if got := sc.shares(a, b); !slices.Equal(got, []int{4, 4}) {
			t.Fatalf("two share %v", got)
		}
		before := a.generations()
		maps.Copy(before, b.generations())
		c := sc.start("c")
		time.Sleep(2 * time.Second)
		got := sc.shares(a, b, c)
		after := a.generations()
		maps.Copy(after, b.generations())
		maps.Copy(after, c.generations())
		if slices.Sort(got); !slices.Equal(got, []int{2, 3, 3}) || moved(before, after) != 2 {
			t.Errorf("three share %v, after %d moves", got, moved(before, after))
		}
		sc.wantOrder()
	})
}

// Whoever drains hands its shards over within a second, and ends without an error.
func TestDrain(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 4)
		a, b := sc.start("a"), sc.start("b")
		time.Sleep(2 * time.Second)
		sc.shares(a, b)
		began := time.Now()
		if err := a.Drain(t.Context()); err != nil {
			t.Errorf("drained with %v", err)
		}
		a.wantEnd(t, nil)
		for len(b.shards()) < 4 && time.Since(began) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("taken over after %s", took)
		}
		if err := b.Drain(t.Context()); err != nil { // nobody is left to take over
			t.Errorf("the last one drained with %v", err)
		}
		c := sc.start("c")
		time.Sleep(5 * time.Second)
		sc.shares(c)
		sc.wantOrder()
	})
}

func TestDrainBeforeAndWithoutRun(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 1)
		sc.server.Stop()
		p := sc.start("a")
		time.Sleep(time.Minute) // it waits for the store
		if err := p.Drain(t.Context()); err != nil {
			t.Errorf("without a store: %v", err)
		}
		sc.server.Start()
		alone := sc.start("")
		time.Sleep(time.Second)
		sc.shares(alone)
		if err := alone.Drain(t.Context()); err != nil {
			t.Errorf("alone: %v", err)
		}
		alone.wantEnd(t, nil)
	})
}

func TestACrashedMemberIsMissed(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 4)
		a, b := sc.start("a"), sc.start("b")
		time.Sleep(2 * time.Second)
		for _, victim := range []*process{a, b} { // one of them coordinates
			began := time.Now()
			victim.kill()
			other := sc.start("other " + victim.name)
			survivors := []*process{other}
			if victim == a {
				survivors = append(survivors, b)
			}
			for len(sc.held(survivors...)) < 4 && time.Since(began) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > 12*time.Second {
				t.Errorf("all is owned again after %s", took)
			}
			if victim == a {
				if err := other.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}
		sc.wantOrder()
	})
}

// held lists the shards of all these.
func (sc *scene) held(processes ...*process) (held []int) {
	for _, p := range processes {
		held = append(held, p.shards()...)
	}
	return held
}

// From alone to a group and back, with the older ones left running: they are fenced, end, and
// say who has taken over. Generations grow.
func TestFromAloneToAGroupAndBack(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 3)
		last := make(map[int]uint64)
		settled := func(processes ...*process) {
			t.Helper()
			time.Sleep(20 * time.Second)
			sc.shares(processes...)
			for _, p := range processes {
				for shard, generation := range p.generations() {
					if generation <= last[shard] {
						t.Errorf("shard %d: generation %d after %d", shard, generation, last[shard])
					}
					last[shard] = generation
				}
			}
		}
		alone := sc.start("")
		settled(alone)
		a, b := sc.start("a"), sc.start("b")
		settled(a, b)
		if err := alone.wantEnd(t, rollcall.ErrNotOwner); !strings.Contains(err.Error(), "shares the shards with others") {
			t.Errorf("alone, left over, says %v", err)
		}
		again := sc.start("")
		settled(again)
		for _, p := range []*process{a, b} {
			if err := p.wantEnd(t, rollcall.ErrNotOwner); !strings.Contains(err.Error(), "which owns all shards alone") {
				t.Errorf("a member, left over, says %v", err)
			}
		}
		c := sc.start("c")
		settled(c)
		again.wantEnd(t, rollcall.ErrNotOwner)
		sc.wantOrder()
	})
}

// Two processes under one id: the older ends, and says what to do.
func TestTwoOfOneID(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 2)
		older := sc.start("a")
		time.Sleep(2 * time.Second)
		newer := sc.start("a")
		if err := older.wantEnd(t, cohort.ErrReplaced); !strings.Contains(err.Error(), "give each an id of its own") {
			t.Errorf("says %v", err)
		}
		time.Sleep(15 * time.Second)
		sc.shares(newer)
		sc.wantOrder()
	})
}

// The store loses that a member has come back under its id, and shows its predecessor: that is no
// newer connection.
func TestTheStoreForgetsThatAMemberCameBack(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		sc := newScene(t, 2)
		first := sc.start("a")
		time.Sleep(2 * time.Second)
		early := sc.server.Snapshot("KV_presence_cohort_keeper")
		first.kill()
		second := sc.start("a")
		time.Sleep(10 * time.Second)
		sc.server.Stop()
		sc.server.Restore(early)
		sc.server.Start()
		time.Sleep(30 * time.Second)
		sc.shares(second)
		if len(second.result) > 0 {
			t.Errorf("ended with %v", <-second.result)
		}
		sc.wantOrder()
	})
}

var (
	histories = flag.Int("histories", 8, "how many random histories to play")
	firstSeed = flag.Uint64("history", 1, "the seed of the first of them")
)

// TestRandomHistories has processes come, drain, die, freeze and wake, and the server go, and
// once or twice somebody own all shards alone. Whatever is stored is of growing generations, and in the end
// every shard has exactly one owner.
func TestRandomHistories(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				h := &history{scene: newScene(t, 3), random: rand.New(rand.NewPCG(seed, 7))}
				for range 40 {
					h.step()
					time.Sleep(time.Duration(h.random.IntN(6000)) * time.Millisecond)
				}
				h.end()
			})
		})
	}
}

type history struct {
	*scene
	random  *rand.Rand
	members []*process
	frozen  []*process
	started int
}

func (h *history) note(format string, args ...any) { h.t.Logf(format, args...) }

func (h *history) step() {
	switch n := h.random.IntN(12); {
	case n < 4 && len(h.members) < 4:
		h.come()
	case n < 6:
		if p := h.take(&h.members); p != nil {
			h.note("%s is killed", p.name)
			p.kill()
		}
	case n == 6:
		if p := h.take(&h.members); p != nil {
			h.note("%s drains", p.name)
			ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
			defer cancel()
			if err := p.Drain(ctx); err != nil {
				h.note("%s: %v", p.name, err)
			}
		}
	case n < 9:
		if p := h.take(&h.members); p != nil {
			h.note("%s freezes", p.name)
			p.link.Freeze()
			h.frozen = append(h.frozen, p)
		}
	case n < 11:
		if p := h.take(&h.frozen); p != nil {
			h.note("%s wakes", p.name)
			p.link.Thaw()
			h.members = append(h.members, p)
		}
	default:
		h.note("the server stops for a moment")
		h.server.Stop()
		time.Sleep(time.Duration(h.random.IntN(8000)) * time.Millisecond)
		h.server.Start()
	}
}

func (h *history) come() {
	h.started++
	name := fmt.Sprint("m", h.started%5) // some come back under their ids
	if h.random.IntN(8) == 0 {
		name = "" // who owns all alone
	}
	h.note("%q comes", name)
	h.members = append(h.members, h.start(name))
}

// take removes one of the processes at random.
func (h *history) take(list *[]*process) *process {
	if len(*list) == 0 {
		return nil
	}
	i := h.random.IntN(len(*list))
	p := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return p
}

// end wakes everybody, and has two more come, so that there is somebody left.
func (h *history) end() {
	for p := h.take(&h.frozen); p != nil; p = h.take(&h.frozen) {
		p.link.Thaw()
		h.members = append(h.members, p)
	}
	time.Sleep(20 * time.Second)
	h.members = append(h.members, h.start("last"), h.start("but one"))
	time.Sleep(40 * time.Second)
	shares := h.shares(h.members...)
	h.note("shares in the end: %v", shares)
	h.wantOrder()
}
