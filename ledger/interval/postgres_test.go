//go:build postgres

package interval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL as a judge: range_agg for unions, its own local midnights for days. Its
// URL comes from ROLLCALL_POSTGRES; .ci/postgres starts one and prints it.

func postgres(t *testing.T) *pgx.Conn {
	t.Helper()
	url := os.Getenv("ROLLCALL_POSTGRES")
	if url == "" {
		t.Fatal("ROLLCALL_POSTGRES is not set; ROLLCALL_POSTGRES=$(.ci/postgres start)")
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.WithoutCancel(t.Context())) })
	// Compiling these queries takes half a second each, running them milliseconds.
	if _, err := db.Exec(t.Context(), "set jit = off"); err != nil {
		t.Fatal(err)
	}
	return db
}

// midnights are the instants at which a clock of the zone shows 00:00:00 of a date.
// It asks the clock only, not the code under test.
func midnights(local *time.Location, d Date) (all []int64) {
	offsets := map[int64]bool{}
	for at := int64(d-2) * dayLength; at <= int64(d+2)*dayLength; at += 15 * minute {
		_, seconds := time.UnixMilli(at).In(local).Zone()
		offsets[int64(seconds)*1000] = true
	}
	for offset := range offsets {
		at := int64(d)*dayLength - offset
		if _, seconds := time.UnixMilli(at).In(local).Zone(); int64(seconds)*1000 == offset {
			all = append(all, at)
		}
	}
	return all
}

// twice says whether a day has two local midnights. PostgreSQL starts the day at the
// later one, which is not the smallest instant of that date, so it is no judge of this
// day and the one before. A midnight that does not exist is no reason: PostgreSQL then
// starts the day at the change of the clock, as the kernel does.
func twice(z *Zone, d Date) bool { return len(midnights(z.local, d)) > 1 }

// PostgreSQL starts every day of 46 years where the kernel does, but for days that
// have two midnights.
func TestDayStartsAreThoseOfPostgres(t *testing.T) {
	db := postgres(t)
	for _, name := range zoneNames {
		z := zone(t, name)
		rows, err := db.Query(t.Context(), `
			select (extract(epoch from date_trunc('day', day at time zone $1, $1)) * 1000)::bigint
			from generate_series($2::timestamp, $3::timestamp, '1 day') day order by day`,
			name, from1990.utc(), (to2036 - 1).utc())
		if err != nil {
			t.Fatal(err)
		}
		starts, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			t.Fatal(err)
		}
		if len(starts) != int(to2036-from1990) {
			t.Fatalf("%s: %d days", name, len(starts))
		}
		elsewhere := 0
		for k, start := range starts {
			d := from1990 + Date(k)
			if start == z.Start(d) {
				continue
			}
			if elsewhere++; !twice(z, d) {
				t.Errorf("%s %v starts at %v, PostgreSQL says %v", name, d, time.UnixMilli(z.Start(d)).UTC(), time.UnixMilli(start).UTC())
			}
		}
		if elsewhere > 0 {
			t.Logf("%s: PostgreSQL starts %d days at the second of two midnights", name, elsewhere)
		}
	}
}

// history is rows of users around a day, with duplicates and empty rows.
func history(rnd *rand.Rand, around Date) (rows []Keyed) {
	const users, days = 40, 6
	for range 1200 {
		from := int64(around-days/2)*dayLength + rnd.Int64N(days*dayLength)
		rows = append(rows, Keyed{rnd.Uint32N(users), Interval{from, from + rnd.Int64N(4*hour)}})
	}
	for range 100 {
		row := rows[rnd.IntN(len(rows))]
		rows = append(rows, row, Keyed{row.Key, Interval{row.To, row.To + rnd.Int64N(2)}})
	}
	rnd.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	return rows
}

func load(t *testing.T, db *pgx.Conn, rows []Keyed) {
	t.Helper()
	for _, statement := range []string{
		"drop table if exists session", "create temporary table session (person int, since timestamptz, till timestamptz)",
	} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.CopyFrom(t.Context(), pgx.Identifier{"session"}, []string{"person", "since", "till"},
		pgx.CopyFromSlice(len(rows), func(k int) ([]any, error) {
			return []any{int32(rows[k].Key), time.UnixMilli(rows[k].From), time.UnixMilli(rows[k].To)}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
}

const postgresUnions = `
	select person, r from (
		select person, unnest(range_agg(tstzrange(since, till))) r from session group by person
	) united`

type personDay struct {
	Person uint32
	Date   Date
}

func TestUnionsAndDaysAreThoseOfPostgres(t *testing.T) {
	db := postgres(t)
	rnd := rand.New(rand.NewPCG(41, 48))
	compared, left := 0, 0
	for _, name := range zoneNames {
		days := append(slices.Clone(changesOf()[name]), from1990+Date(rnd.Int32N(int32(to2036-from1990))))
		rnd.Shuffle(len(days), func(a, b int) { days[a], days[b] = days[b], days[a] })
		for _, around := range days[:min(2, len(days))] {
			t.Run(fmt.Sprintf("%s/%v", name, around), func(t *testing.T) {
				rows := history(rnd, around)
				load(t, db, rows)
				compareUnions(t, db, rows)
				c, l := compareDays(t, db, zone(t, name), rows)
				compared, left = compared+c, left+l
			})
		}
	}
	t.Logf("%d days of users compared, %d left out", compared, left)
	if compared < 10_000 {
		t.Errorf("only %d days of users compared", compared)
	}
}

func compareUnions(t *testing.T, db *pgx.Conn, rows []Keyed) {
	t.Helper()
	result, err := db.Query(t.Context(), `
		select person, (extract(epoch from lower(r)) * 1000)::bigint, (extract(epoch from upper(r)) * 1000)::bigint
		from (`+postgresUnions+`) u order by person, r`)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pgx.CollectRows(result, func(row pgx.CollectableRow) (k Keyed, err error) {
		return k, row.Scan(&k.Key, &k.From, &k.To)
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []Keyed
	var g Groups
	g.Union(rows, func(key uint32, union []Interval) {
		for _, i := range union {
			got = append(got, Keyed{key, i})
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("unions differ: %d intervals, PostgreSQL has %d", len(got), len(want))
	}
}

func compareDays(t *testing.T, db *pgx.Conn, z *Zone, rows []Keyed) (compared, left int) {
	t.Helper()
	result, err := db.Query(t.Context(), `
		with united as (`+postgresUnions+`), piece as (
			select person, day::date as date,
				r * tstzrange(day at time zone $1, (day + interval '1 day') at time zone $1) as piece
			from united, generate_series(
				date_trunc('day', lower(r) at time zone $1), upper(r) at time zone $1, interval '1 day') day
		)
		select person, date - date '1970-01-01', sum(extract(epoch from upper(piece) - lower(piece)) * 1000)::bigint
		from piece where not isempty(piece) group by person, date`, z.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := map[personDay]int64{}
	var person uint32
	var date int32
	var total int64
	if _, err := pgx.ForEachRow(result, []any{&person, &date, &total}, func() error {
		want[personDay{person, Date(date)}] = total
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	judged := judgedDays(z)
	var g Groups
	g.Union(rows, func(key uint32, union []Interval) {
		for _, d := range z.Totals(nil, union, Day) {
			k := personDay{key, d.Date}
			if !judged(d.Date) {
				left++
			} else if compared++; want[k] != d.Total {
				t.Errorf("user %d, %v: %d, PostgreSQL says %d", key, d.Date, d.Total, want[k])
			}
			delete(want, k)
		}
	})
	for k, total := range want {
		if judged(k.Date) {
			t.Errorf("user %d, %v: nothing, PostgreSQL says %d", k.Person, k.Date, total)
		}
	}
	return compared, left
}

// judgedDays are those of which PostgreSQL knows where they start and end.
func judgedDays(z *Zone) func(Date) bool {
	known := map[Date]bool{}
	return func(d Date) bool {
		judged, ok := known[d]
		if !ok {
			judged = !twice(z, d) && !twice(z, d+1)
			known[d] = judged
		}
		return judged
	}
}
