package interval

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// zoneNames are zones in which somebody's idea of a day has been wrong: midnights
// that do not exist or happen twice, skipped days, offsets of a quarter of an hour,
// summer times of half an hour, two hours or below zero, changes around Ramadan.
var zoneNames = []string{
	"UTC", "Africa/Cairo", "Africa/Casablanca", "Africa/Juba", "Africa/Monrovia", "America/Asuncion",
	"America/Caracas", "America/Havana", "America/Los_Angeles", "America/New_York", "America/Nuuk",
	"America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns", "Antarctica/Casey",
	"Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Damascus", "Asia/Dhaka", "Asia/Gaza",
	"Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Shanghai", "Asia/Tehran", "Asia/Tokyo",
	"Australia/Eucla", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Dublin",
	"Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham",
	"Pacific/Fakaofo", "Pacific/Kiritimati", "Pacific/Kwajalein", "Pacific/Tongatapu",
}

const minute int64 = 60_000

var (
	from1990 = DateOf(1990, 1, 1)
	to2036   = DateOf(2036, 1, 1)
)

// walk calls each with every minute from start to end and the day it belongs to: the
// latest local date that a clock has shown since some days before. It is the
// definition of a day, one look at the clock a minute.
func walk(local *time.Location, start, end int64, each func(at int64, day Date)) {
	day := Date(-1 << 31)
	for at := start - 4*dayLength; at < end; at += minute {
		day = max(day, DateOf(time.UnixMilli(at).In(local).Date()))
		if at >= start {
			each(at, day)
		}
	}
}

// changes are the days in which a zone's clock changed, from 1990 to 2035.
func changes(z *Zone) (days []Date) {
	offset := func(d Date) int {
		_, seconds := time.UnixMilli(int64(d) * dayLength).In(z.local).Zone()
		return seconds
	}
	for d := from1990; d < to2036; d++ {
		if offset(d) != offset(d+1) {
			days = append(days, d)
		}
	}
	return days
}

var changesOf = sync.OnceValue(func() map[string][]Date {
	all := map[string][]Date{}
	for _, name := range zoneNames {
		z, err := testZones.Load(name)
		if err != nil {
			panic(err)
		}
		all[name] = changes(z)
	}
	return all
})

// anyDay is in half of all draws a day on which the clock changes.
func anyDay(t *rapid.T, name string) Date {
	days := changesOf()[name]
	if len(days) > 0 && rapid.Bool().Draw(t, "changing") {
		return rapid.SampledFrom(days).Draw(t, "day")
	}
	return Date(rapid.Int32Range(int32(from1990), int32(to2036)-1).Draw(t, "day"))
}

// Histories of some days around a day of any zone: union, day parts and totals are
// what a count of minutes gives, whatever the order of the sessions.
func TestDaysAreTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneNames).Draw(t, "zone")
		z, _ := testZones.Load(name)
		day := int64(anyDay(t, name)) * dayLength
		const length = 3 * 24 * 60
		var sessions []Interval
		var online [length]bool
		for range rapid.IntRange(1, 12).Draw(t, "sessions") {
			from := rapid.Int64Range(0, length-1).Draw(t, "from")
			to := min(from+rapid.Int64Range(0, 20*60).Draw(t, "length"), length)
			sessions = append(sessions, Interval{day - dayLength + from*minute, day - dayLength + to*minute})
			for at := from; at < to; at++ {
				online[at] = true
			}
		}
		want := map[Date]int64{}
		k := 0
		walk(z.local, day-dayLength, day-dayLength+length*minute, func(_ int64, day Date) {
			if online[k] {
				want[day] += minute
			}
			k++
		})
		checkTotals(t, z, Union(muddle(t, sessions)), want)
	})
}

// The whole way: beats of some sessions, in any order and more than once, to a user's
// time per day.
func TestBeatsToDaysAreTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneNames).Draw(t, "zone")
		z, _ := testZones.Load(name)
		start := int64(anyDay(t, name)-1) * dayLength
		const length = 3 * 24 * 60
		cap := rapid.IntRange(1, 90).Draw(t, "cap")
		g := Gaps{Cap: time.Duration(cap) * time.Minute, Grace: time.Duration(rapid.IntRange(0, cap).Draw(t, "grace")) * time.Minute}
		var online [length]bool
		var sets [][]Interval
		for range rapid.IntRange(1, 3).Draw(t, "sessions") {
			beats := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
				return start + rapid.Int64Range(0, length-100).Draw(t, "minute")*minute
			}), 1, 60).Draw(t, "beats")
			closed := start + rapid.Int64Range(length/2, length).Draw(t, "close")*minute
			for at := range online {
				online[at] = online[at] || counts(g, beats, closed, start+int64(at)*minute)
			}
			set, err := g.OnlineUntil(nil, muddle(t, beats), closed)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, set)
		}
		want := map[Date]int64{}
		walk(z.local, start, start+length*minute, func(at int64, day Date) {
			if online[(at-start)/minute] {
				want[day] += minute
			}
		})
		user, err := Merge(nil, sets...)
		if err != nil {
			t.Fatal(err)
		}
		checkTotals(t, z, user, want)
	})
}

func checkTotals(t *rapid.T, z *Zone, set []Interval, want map[Date]int64) {
	parts := map[Date]int64{}
	for _, i := range set {
		for _, p := range z.Split(nil, i, Day) {
			parts[p.Date] += p.Length()
		}
	}
	all := int64(0)
	for _, d := range z.Totals(nil, set, Day) {
		if d.Total != want[d.Date] || d.Total != parts[d.Date] {
			t.Fatalf("%v %v: %d, of parts %d, counted %d", z.Name(), d.Date, d.Total, parts[d.Date], want[d.Date])
		}
		if d.Total > z.Bounds(Day, d.Date).Length() {
			t.Fatalf("%v %v: longer online than the day", z.Name(), d.Date)
		}
		all += d.Total
		delete(want, d.Date)
		delete(parts, d.Date)
	}
	if len(want)+len(parts) != 0 || all != Sum(set) {
		t.Fatalf("%v: %d of %d, without a total: %v %v", z.Name(), all, Sum(set), want, parts)
	}
}

// Every day of every zone from 1990 to 2035 starts at the smallest instant whose
// local date it is, found by another way: by the hour, and by the minute where the
// clock changes.
func TestEveryDayOf46Years(t *testing.T) {
	for _, name := range zoneNames {
		z := zone(t, name)
		day := from1990
		check := func(at int64, seen Date) {
			for ; day <= seen; day++ {
				if got := z.Start(day); got != at {
					t.Fatalf("%s %v starts at %v, want %v", name, day, time.UnixMilli(got).UTC(), time.UnixMilli(at).UTC())
				}
			}
		}
		start := int64(from1990-1) * dayLength
		before := int64(-1 << 62)
		for at := start; at < int64(to2036-1)*dayLength; at += hour {
			_, seconds := time.UnixMilli(at).In(z.local).Zone()
			offset := int64(seconds) * 1000
			if offset != before {
				for m := at - hour; m < at; m += minute {
					check(m, DateOf(time.UnixMilli(m).In(z.local).Date()))
				}
			}
			before = offset
			// The day that the hour reaches, if its clock runs evenly.
			if midnight := int64(day)*dayLength - offset; midnight >= at && midnight < at+hour && even(z, at, offset) {
				check(midnight, day)
			}
			if Date(floorDiv(at+offset, dayLength)) >= day && even(z, at, offset) {
				check(at, Date(floorDiv(at+offset, dayLength)))
			}
		}
		if day < to2036-3 {
			t.Fatalf("%s: only up to %v", name, day)
		}
	}
}

func even(z *Zone, at, offset int64) bool {
	_, seconds := time.UnixMilli(at + hour).In(z.local).Zone()
	return int64(seconds)*1000 == offset
}

// Periods of a zone have no holes, and every instant is in the period it is said to
// be in.
func TestPeriodsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneNames).Draw(t, "zone")
		z, _ := testZones.Load(name)
		p := rapid.SampledFrom([]Period{Day, Week, Month}).Draw(t, "period")
		from := int64(anyDay(t, name))*dayLength + rapid.Int64Range(0, dayLength).Draw(t, "from")
		i := Interval{from, from + rapid.Int64Range(0, 100*dayLength).Draw(t, "length")}
		parts := z.Split(nil, i, p)
		at := i.From
		for _, part := range parts {
			bounds := z.Bounds(p, part.Date)
			if part.From != at || part.Empty() || p.First(part.Date) != part.Date || part.Clip(bounds) != part.Interval {
				t.Fatalf("%s: part %v of %v, in %v", name, part, i, bounds)
			}
			if p.First(z.Date(part.From)) != part.Date || p.First(z.Date(part.To-1)) != part.Date {
				t.Fatalf("%s: part %v is not of its period", name, part)
			}
			at = part.To
		}
		if at != i.To && !i.Empty() {
			t.Fatalf("%s: parts of %v end at %d", name, i, at)
		}
	})
}

func TestLengthsOfDays(t *testing.T) {
	for _, c := range []struct {
		zone, date string
		length     time.Duration
	}{
		{"America/Havana", "2026-03-08", 23 * time.Hour},
		{"America/Havana", "2026-11-01", 25 * time.Hour},
		{"America/Sao_Paulo", "2018-11-04", 23 * time.Hour}, // no midnight
		{"America/Sao_Paulo", "2018-02-17", 25 * time.Hour}, // 23:00 twice
		{"Pacific/Apia", "2011-12-29", 24 * time.Hour},
		{"Pacific/Apia", "2011-12-30", 0},
		{"Pacific/Kwajalein", "1993-08-21", 0},
		{"Australia/Lord_Howe", "2026-10-04", 23*time.Hour + 30*time.Minute},
		{"Antarctica/Troll", "2026-03-29", 22 * time.Hour},
		{"Asia/Pyongyang", "2015-08-14", 24*time.Hour + 30*time.Minute}, // 24:00 became 23:30
		{"Asia/Pyongyang", "2018-05-04", 23*time.Hour + 30*time.Minute}, // 23:30 became 24:00
		// The clock went from 00:01 back to 23:01: the new day had begun a minute before.
		{"America/St_Johns", "2010-11-06", 24 * time.Hour},
		{"America/St_Johns", "2010-11-07", 25 * time.Hour},
	} {
		d, err := ParseDate(c.date)
		if err != nil {
			t.Fatal(err)
		}
		if got := zone(t, c.zone).Bounds(Day, d).Length(); got != c.length.Milliseconds() {
			t.Errorf("%s %s has %v", c.zone, c.date, time.Duration(got)*time.Millisecond)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ date, week, month string }{
		{"2026-07-29", "2026-W31", "2026-07"}, {"2027-01-03", "2026-W53", "2027-01"}, {"2024-12-30", "2025-W01", "2024-12"},
		{"1970-01-01", "1970-W01", "1970-01"}, {"1969-12-28", "1969-W52", "1969-12"},
	} {
		d, err := ParseDate(c.date)
		if err != nil || Day.Label(d) != c.date || Week.Label(d) != c.week || Month.Label(d) != c.month {
			t.Errorf("%s %s %s, %v", Day.Label(d), Week.Label(d), Month.Label(d), err)
		}
		if Week.First(d).Weekday() != time.Monday || Week.Next(d)-Week.First(d) != 7 {
			t.Errorf("%s: its week starts on %v", c.date, Week.First(d))
		}
	}
	if _, err := ParseDate("2026-02-30"); err == nil {
		t.Error("30 February")
	}
}

// What lies outside the calendar counts to its first and last day.
func TestEndsOfTheCalendar(t *testing.T) {
	for _, name := range []string{"UTC", "Pacific/Apia", "America/New_York"} {
		z := zone(t, name)
		for _, p := range []Period{Day, Week, Month} {
			for _, i := range []Interval{{Earliest - 9*dayLength, Earliest + 40*dayLength}, {Latest - 40*dayLength, Latest + 9*dayLength}} {
				sum := int64(0)
				for _, part := range z.Split(nil, i, p) {
					sum += part.Length()
				}
				if sum != i.Length() {
					t.Errorf("%s, period %d, %v: parts have %d of %d", name, p, i, sum, i.Length())
				}
			}
		}
	}
}

func TestNoSuchZone(t *testing.T) {
	for _, name := range []string{"", "Local", "Mars/Olympus", "right/UTC", "../etc/passwd", "/etc/localtime"} {
		if _, err := LoadZone(name); !errors.Is(err, ErrZone) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestZonesAreShared(t *testing.T) {
	var zones Zones
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				z, err := zones.Load(zoneNames[rand.IntN(len(zoneNames))])
				if err != nil {
					t.Error(err)
					return
				}
				z.Start(from1990 + Date(rand.IntN(int(to2036-from1990))))
			}
		})
	}
	wg.Wait()
	a, _ := zones.Load("Asia/Tokyo")
	if b, _ := zones.Load("Asia/Tokyo"); a != b {
		t.Error("loaded twice")
	}
}

func TestSplitDoesNotAllocate(t *testing.T) {
	z := zone(t, "America/Havana")
	at := z.Start(DateOf(2026, 3, 1))
	parts := make([]Part, 0, 64)
	totals := make([]PeriodTotal, 0, 64)
	set := []Interval{{at, at + 3*hour}, {at + 20*hour, at + 400*hour}}
	if n := testing.AllocsPerRun(100, func() {
		parts = z.Split(parts[:0], set[1], Day)
		totals = z.Totals(totals[:0], set, Day)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !slices.IsSortedFunc(totals, func(a, b PeriodTotal) int { return int(a.Date - b.Date) }) {
		t.Error("totals out of order")
	}
}
