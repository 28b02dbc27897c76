package duckdb

import (
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

func TestUnionsAreThoseOfDuckDB(t *testing.T) {
	db := open(t)
	rnd := rand.New(rand.NewPCG(42, 44))
	for range 10 {
		rows := history(rnd, rnd.Int64N(40*365*day), 5*day, 3000, 60)
		load(t, db, rows)
		compareUnions(t, db, rows)
	}
}

func compareUnions(t *testing.T, db *sql.DB, rows []interval.Keyed) {
	t.Helper()
	result, err := db.QueryContext(t.Context(), "select person, since, till from ("+united+") order by person, since")
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	var want, got []interval.Keyed
	for result.Next() {
		var k interval.Keyed
		if err := result.Scan(&k.Key, &k.From, &k.To); err != nil {
			t.Fatal(err)
		}
		want = append(want, k)
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	var g interval.Groups
	g.Union(rows, func(key uint32, union []interval.Interval) {
		for _, i := range union {
			got = append(got, interval.Keyed{Key: key, Interval: i})
		}
	})
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("unions differ: %d intervals, DuckDB has %d", len(got), len(want))
	}
}

// Days around which histories play: changes of the clock at midnight, by other than
// an hour, over a whole day, and days on which nothing happens.
var daysOfZones = []struct {
	zone  string
	dates []string
}{
	{"UTC", []string{"2024-02-29"}},
	{"Africa/Cairo", []string{"1995-04-28", "2014-07-31", "2023-04-28"}},
	{"Africa/Casablanca", []string{"2018-10-28", "2024-03-10"}},
	{"Africa/Juba", []string{"2021-02-01"}},
	{"America/Asuncion", []string{"2024-03-24", "2024-10-06"}},
	{"America/Caracas", []string{"2007-12-09", "2016-05-01"}},
	{"America/Havana", []string{"1998-03-29", "2024-03-10", "2024-11-03"}},
	{"America/Los_Angeles", []string{"2024-03-10", "2024-11-03"}},
	{"America/New_York", []string{"2024-03-10", "2024-11-03"}},
	{"America/Santiago", []string{"2022-09-11", "2024-04-07"}},
	{"America/Sao_Paulo", []string{"1996-02-11", "2018-02-18", "2018-11-04"}},
	{"America/St_Johns", []string{"2010-03-14", "2010-11-07"}},
	{"Antarctica/Troll", []string{"2024-03-31", "2024-10-27"}},
	{"Asia/Amman", []string{"2021-10-29", "2022-02-25"}},
	{"Asia/Beirut", []string{"2024-03-31"}},
	{"Asia/Damascus", []string{"2022-03-25", "2022-10-28"}},
	{"Asia/Dhaka", []string{"2009-06-19"}},
	{"Asia/Gaza", []string{"2011-08-01", "2022-03-27"}},
	{"Asia/Kathmandu", []string{"2024-05-01"}},
	{"Asia/Kolkata", []string{"2024-05-01"}},
	{"Asia/Pyongyang", []string{"2015-08-15", "2018-05-05"}},
	{"Asia/Shanghai", []string{"1990-04-15", "1991-09-15"}},
	{"Asia/Tehran", []string{"2022-03-22", "2022-09-22"}},
	{"Asia/Tokyo", []string{"2024-05-01"}},
	{"Australia/Lord_Howe", []string{"2024-04-07", "2024-10-06"}},
	{"Australia/Sydney", []string{"2024-04-07", "2024-10-06"}},
	{"Europe/Berlin", []string{"2024-03-31", "2024-10-27"}},
	{"Europe/Dublin", []string{"2024-03-31", "2024-10-27"}},
	{"Europe/London", []string{"2024-03-31", "2024-10-27"}},
	{"Europe/Moscow", []string{"2011-03-27", "2014-10-26"}},
	{"Pacific/Apia", []string{"2011-12-30", "2020-04-05"}},
	{"Pacific/Auckland", []string{"2024-04-07", "2024-09-29"}},
	{"Pacific/Chatham", []string{"2024-04-07", "2024-09-29"}},
	{"Pacific/Kwajalein", []string{"1993-08-21"}},
}

func TestDaysAreThoseOfDuckDB(t *testing.T) {
	db := open(t)
	rnd := rand.New(rand.NewPCG(46, 47))
	compared, left := 0, 0
	for _, z := range daysOfZones {
		zone, err := interval.LoadZone(z.zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, date := range z.dates {
			t.Run(z.zone+"/"+date, func(t *testing.T) {
				around, err := interval.ParseDate(date)
				if err != nil {
					t.Fatal(err)
				}
				rows := history(rnd, int64(around-3)*day, 6*day, 1500, 40)
				load(t, db, rows)
				c, l := compareDays(t, db, zone, rows)
				compared, left = compared+c, left+l
			})
		}
	}
	t.Logf("%d days of users compared, %d left out", compared, left)
	if compared < 5000 {
		t.Error("too few")
	}
}

type personDay struct {
	person uint32
	date   interval.Date
}

func compareDays(t *testing.T, db *sql.DB, zone *interval.Zone, rows []interval.Keyed) (compared, left int) {
	t.Helper()
	want, judged := dayTotals(t, db, zone), judgedDays(t, zone)
	got := map[personDay]int64{}
	var g interval.Groups
	g.Union(rows, func(key uint32, union []interval.Interval) {
		for _, d := range zone.Totals(nil, union, interval.Day) {
			got[personDay{key, d.Date}] = d.Total
		}
	})
	for _, k := range slices.Collect(maps.Keys(want)) {
		if _, ok := got[k]; !ok {
			got[k] = 0
		}
	}
	for k, total := range got {
		if !judged(k.date) {
			left++
			continue
		}
		if compared++; total != want[k] {
			t.Errorf("user %d, %v: %d, DuckDB says %d", k.person, k.date, total, want[k])
		}
	}
	return compared, left
}

// dayTotals is what DuckDB counts: every interval cut at the midnights that DuckDB
// knows.
func dayTotals(t *testing.T, db *sql.DB, zone *interval.Zone) map[personDay]int64 {
	t.Helper()
	result, err := db.QueryContext(t.Context(), `
		with piece as (
			select person, since, till, unnest(generate_series(
				date_trunc('day', timezone($1, make_timestamptz(since * 1000))),
				timezone($1, make_timestamptz(till * 1000)), interval 1 day)) as date
			from (`+united+`)
		), bounded as (
			select person, date, greatest(since, epoch_ms(timezone($1, date))) since,
				least(till, epoch_ms(timezone($1, date + interval 1 day))) till
			from piece
		)
		select person, date_diff('day', timestamp '1970-01-01', date), sum(till - since)::bigint
		from bounded where till > since group by person, date`, zone.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	totals := map[personDay]int64{}
	for result.Next() {
		var person uint32
		var date, total int64
		if err := result.Scan(&person, &date, &total); err != nil {
			t.Fatal(err)
		}
		totals[personDay{person, interval.Date(date)}] = total
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return totals
}

// judgedDays are those of which DuckDB knows where they start and end. Of two local
// midnights it cannot say which one starts the day, and the last day before them
// ends there.
func judgedDays(t *testing.T, zone *interval.Zone) func(interval.Date) bool {
	t.Helper()
	local, err := time.LoadLocation(zone.Name())
	if err != nil {
		t.Fatal(err)
	}
	known := map[interval.Date]bool{}
	return func(d interval.Date) bool {
		judged, ok := known[d]
		if !ok {
			judged = midnights(local, d) < 2 && midnights(local, d+1) < 2
			known[d] = judged
		}
		return judged
	}
}

// midnights counts how often a clock shows 00:00:00 of a date.
func midnights(local *time.Location, d interval.Date) (n int) {
	year, month, date := d.Civil()
	around := int64(d) * day
	for at := around - 30*hour; at <= around+30*hour; at += 15 * minute {
		t := time.UnixMilli(at).In(local)
		y, m, dd := t.Date()
		if y == year && m == month && dd == date && t.Hour() == 0 && t.Minute() == 0 {
			n++
		}
	}
	return n
}
