package interval

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A crowd is the sessions of many users over a month, in the order of arrival.
func crowd(rows, users int) []Keyed {
	rnd := rand.New(rand.NewPCG(1, 2))
	list := make([]Keyed, rows)
	for k := range list {
		from := int64(1_780_000_000_000) + rnd.Int64N(30*dayLength)
		list[k] = Keyed{Key: rnd.Uint32N(uint32(users)), Interval: Interval{from, from + rnd.Int64N(2*hour)}}
	}
	return list
}

func reportRate(b *testing.B, n int, unit string) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), unit+"/s")
}

// BenchmarkBuilder is one user's month of beats, in order, with an absence every hour.
func BenchmarkBuilder(b *testing.B) {
	const beats = 100_000
	rule := Gaps{Cap: time.Minute, Grace: 30 * time.Second}
	session, err := NewBuilder(rule)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		session.Reset()
		at := int64(0)
		for k := range beats {
			at += 30_000
			if k%120 == 0 {
				at += hour
			}
			if session.Beat(at) != nil {
				b.Fatal("refused")
			}
		}
	}
	reportRate(b, beats, "beats")
}

// BenchmarkBuilders is what a ledger sees: beats of many sessions, taking turns, so
// that no session is in the cache.
func BenchmarkBuilders(b *testing.B) {
	const sessions = 100_000
	rule := Gaps{Cap: time.Minute, Grace: 30 * time.Second}
	open := make([]Builder, sessions)
	order := rand.New(rand.NewPCG(1, 2)).Perm(sessions)
	for k := range open {
		open[k], _ = NewBuilder(rule)
	}
	at := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		at += 30_000
		for _, k := range order {
			if open[k].Beat(at) != nil {
				b.Fatal("refused")
			}
		}
	}
	reportRate(b, sessions, "beats")
}

// BenchmarkBuilderLate has every tenth beat come out of order.
func BenchmarkBuilderLate(b *testing.B) {
	const beats = 100_000
	rnd := rand.New(rand.NewPCG(1, 2))
	list := make([]int64, beats)
	for k := range list {
		list[k] = int64(k)*30_000 + int64(k/120)*hour
		if k%10 == 9 {
			other := rnd.IntN(k)
			list[k], list[other] = list[other], list[k]
		}
	}
	session, _ := NewBuilder(Gaps{Cap: time.Minute, Grace: 30 * time.Second})
	b.ReportAllocs()
	for b.Loop() {
		session.Reset()
		for _, at := range list {
			if session.Beat(at) != nil {
				b.Fatal("refused")
			}
		}
	}
	reportRate(b, beats, "beats")
}

// BenchmarkUnion is one list of a million intervals, in no order.
func BenchmarkUnion(b *testing.B) {
	const rows = 1_000_000
	list := make([]Interval, 0, rows)
	for _, r := range crowd(rows, 1) {
		list = append(list, r.Interval)
	}
	work := make([]Interval, rows)
	b.ReportAllocs()
	for b.Loop() {
		copy(work, list)
		Union(work)
	}
	reportRate(b, rows, "intervals")
}

// BenchmarkGroups is the union per user of a million intervals of 50,000 users.
func BenchmarkGroups(b *testing.B) {
	const rows = 1_000_000
	list := crowd(rows, 50_000)
	var g Groups
	b.ReportAllocs()
	for b.Loop() {
		total := int64(0)
		g.Union(list, func(_ uint32, union []Interval) { total += Sum(union) })
		if total == 0 {
			b.Fatal("nobody was online")
		}
	}
	reportRate(b, rows, "intervals")
}

// BenchmarkMerge is the sessions of eight devices of a user.
func BenchmarkMerge(b *testing.B) {
	lists := make([][]Interval, 8)
	rows := crowd(1000, len(lists))
	for _, r := range rows {
		lists[r.Key] = append(lists[r.Key], r.Interval)
	}
	for _, list := range lists {
		Sort(list)
	}
	var dst []Interval
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = Merge(dst[:0], lists...); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b, len(rows), "intervals")
}

func BenchmarkDays(b *testing.B) {
	const rows = 100_000
	list := crowd(rows, 1)
	for _, name := range []string{"UTC", "America/Havana", "Pacific/Apia"} {
		for _, p := range []Period{Day, Week, Month} {
			b.Run(name+"/"+[]string{"day", "week", "month"}[p], func(b *testing.B) {
				z := zone(b, name)
				parts := make([]Part, 0, 8)
				b.ReportAllocs()
				for b.Loop() {
					for _, r := range list {
						parts = z.Split(parts[:0], r.Interval, p)
					}
				}
				reportRate(b, rows, "intervals")
			})
		}
	}
}

// BenchmarkDaysOfYears is one interval of twenty years.
func BenchmarkDaysOfYears(b *testing.B) {
	z := zone(b, "America/Havana")
	i := Interval{z.Start(DateOf(2006, 1, 1)), z.Start(DateOf(2026, 1, 1))}
	parts := z.Split(nil, i, Day)
	b.ReportAllocs()
	for b.Loop() {
		parts = z.Split(parts[:0], i, Day)
	}
	reportRate(b, len(parts), "days")
}

// BenchmarkZone is what the first use of a zone costs, and of a stretch of days.
func BenchmarkZone(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		z, err := LoadZone("America/New_York")
		if err != nil {
			b.Fatal(err)
		}
		z.Start(from1990)
	}
}

func TestCrowdIsWorthMeasuring(t *testing.T) {
	var g Groups
	rows, joined := crowd(100_000, 5000), 0
	g.Union(rows, func(_ uint32, union []Interval) { joined += len(union) })
	if joined > len(rows)*99/100 {
		t.Errorf("hardly anything overlaps: %d of %d left", joined, len(rows))
	}
	if slices.IsSortedFunc(rows, func(a, b Keyed) int { return int(a.From - b.From) }) {
		t.Error("in order already")
	}
}
