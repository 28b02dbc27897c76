package interval

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func same(t *rapid.T, what string, got, want []Interval) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestUnionIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := anyList.Draw(t, "list")
		counted := tallyOf(list)
		got := Union(muddle(t, list))
		same(t, "union", got, counted.set())
		same(t, "union of the union", Union(slices.Clone(got)), got)
		if !IsSet(got) {
			t.Fatalf("no set: %v", got)
		}
		Sort(list)
		if total := Total(list); total != counted.total() || total != Sum(got) {
			t.Fatalf("total %d, union %d, want %d", total, Sum(got), counted.total())
		}
		if Sum(list) < Total(list) {
			t.Fatal("a user has more time than their sessions")
		}
	})
}

func TestLongListsSortToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(anyInterval, short+1, 4*short).Draw(t, "list")
		same(t, "union", Union(slices.Clone(list)), tallyOf(list).set())
	})
}

func TestAlgebraIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := Union(anyList.Draw(t, "a")), Union(anyList.Draw(t, "b"))
		ta, tb := tallyOf(a), tallyOf(b)
		both := Intersect(nil, a, b)
		same(t, "intersect", both, ta.where(tb, func(a, b bool) bool { return a && b }).set())
		same(t, "intersect, the other way round", Intersect(nil, b, a), both)
		rest := Subtract(nil, a, b)
		same(t, "subtract", rest, ta.where(tb, func(a, b bool) bool { return a && !b }).set())
		if Sum(both)+Sum(rest) != Sum(a) {
			t.Fatal("what b has of a and what it has not are not a")
		}
		if Within(a, b) != (len(rest) == 0) || !Within(both, a) || !Within(both, b) {
			t.Fatalf("within: %v in %v is %v", a, b, Within(a, b))
		}
	})
}

func TestClipIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, bounds := Union(anyList.Draw(t, "set")), anyInterval.Draw(t, "bounds")
		want := tallyOf(set).where(tallyOf([]Interval{bounds}), func(a, b bool) bool { return a && b }).set()
		same(t, "clip", Clip(slices.Clone(set), bounds), want)
	})
}

func TestJoinerIsUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := anyList.Draw(t, "list")
		Sort(list)
		var j Joiner
		var got []Interval
		for _, i := range list {
			done, ok, err := j.Add(i)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, done)
			}
		}
		if last, ok := j.Flush(); ok {
			got = append(got, last)
		}
		same(t, "joined", got, Union(list))
		if _, ok := j.Flush(); ok {
			t.Fatal("a flushed joiner still holds something")
		}
	})
}

func TestJoinerRefusesDisorder(t *testing.T) {
	var j Joiner
	for _, i := range []Interval{{10, 20}, {15, 30}} {
		if _, _, err := j.Add(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := j.Add(Interval{14, 40}); !errors.Is(err, ErrOrder) {
		t.Fatalf("got %v", err)
	}
	if last, ok := j.Flush(); !ok || last != (Interval{10, 30}) {
		t.Fatalf("the refused interval counted: %v", last)
	}
}

func TestMergeIsUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(anyList, 0, 9).Draw(t, "sessions")
		var all []Interval
		for _, list := range lists {
			Sort(list)
			all = append(all, list...)
		}
		before := []Interval{{-2, -1}}
		got, err := Merge(before, lists...)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "merge", got, append(before, Union(all)...))
	})
}

func TestMergeRefusesDisorder(t *testing.T) {
	for _, list := range [][]Interval{{{5, 9}, {3, 4}}, {{5, 9}, {3, 3}}, {{5, 5}, {3, 4}}} {
		got, err := Merge([]Interval{{0, 1}}, []Interval{{1, 2}}, list)
		if !errors.Is(err, ErrOrder) || len(got) != 1 {
			t.Errorf("%v: %v, %v", list, got, err)
		}
	}
}

func TestGroupsAreUnionsByKey(t *testing.T) {
	var g Groups // which must not remember what it saw before
	rapid.Check(t, func(t *rapid.T) {
		lists := map[uint32][]Interval{}
		var rows []Keyed
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			r := Keyed{rapid.Uint32Range(0, 9).Draw(t, "key"), anyInterval.Draw(t, "interval")}
			rows = append(rows, r)
			lists[r.Key] = append(lists[r.Key], r.Interval)
		}
		last := -1
		g.Union(rows, func(key uint32, union []Interval) {
			if int(key) <= last {
				t.Fatalf("key %d after %d", key, last)
			}
			last = int(key)
			same(t, "union of a key", union, Union(lists[key]))
			delete(lists, key)
		})
		if len(lists) != 0 {
			t.Fatalf("without a union: %v", lists)
		}
	})
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		Interval
		fine bool
	}{
		{Interval{0, 0}, true}, {Interval{0, 1}, true}, {Interval{1, 0}, false},
		{Interval{Earliest, Latest}, true}, {Interval{Earliest - 1, 0}, false}, {Interval{0, Latest + 1}, false},
	} {
		if err := c.Check(); (err == nil) != c.fine || err != nil && !errors.Is(err, ErrInstant) {
			t.Errorf("%v: %v", c.Interval, err)
		}
	}
}
