package duckdb

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

// The race: the union total of each of 50,000 users over a million intervals, which
// both sides hold in memory, in the order of arrival.
const (
	raceRows  = 1_000_000
	raceUsers = 50_000
)

func raceHistory() []interval.Keyed {
	rnd := rand.New(rand.NewPCG(50_000, 1_000_000))
	start := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	return history(rnd, start, 30*day, raceRows, raceUsers)[:raceRows]
}

// totals is the shortest way that DuckDB has to union totals: every row adds what it
// has beyond all rows that started before it. One row of result, so that what the
// driver costs does not count against DuckDB.
const totals = `
	select count(*), sum(total)::bigint from (
		select person, sum(greatest(0, till - greatest(since, coalesce(reached, since)))) total from (
			select person, since, till, max(till) over (
				partition by person order by since rows between unbounded preceding and 1 preceding) reached
			from session
		) group by person
	)`

// A contender says how many users there are and how long they were online, together.
type contender func(t testing.TB) (users, total int64)

func kernel(rows []interval.Keyed) contender {
	var g interval.Groups
	byUser := make([]int64, raceUsers)
	return func(testing.TB) (users, total int64) {
		g.Union(rows, func(key uint32, union []interval.Interval) { byUser[key] = interval.Sum(union) })
		for _, t := range byUser {
			users, total = users+1, total+t
		}
		return users, total
	}
}

func duck(db *sql.DB) contender {
	return func(t testing.TB) (users, total int64) {
		if err := db.QueryRowContext(t.Context(), totals).Scan(&users, &total); err != nil {
			t.Fatal(err)
		}
		return users, total
	}
}

// setThreads is zero for as many as DuckDB takes by itself.
func setThreads(t testing.TB, db *sql.DB, threads int) {
	t.Helper()
	if threads == 0 {
		exec(t, db, "reset threads")
		return
	}
	exec(t, db, fmt.Sprintf("set threads = %d", threads))
}

func threadsOf(t testing.TB, db *sql.DB) string {
	t.Helper()
	var version string
	var threads int
	if err := db.QueryRowContext(t.Context(), "select version(), current_setting('threads')").Scan(&version, &threads); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("DuckDB %s, threads=%d", version, threads)
}

// Times of one run differ with what else the machine does, so the contenders take
// turns and each counts with its best.
func TestUnionTakesAtMostHalfTheTimeOfDuckDB(t *testing.T) {
	const rounds = 5
	rows := raceHistory()
	db := open(t)
	load(t, db, rows)
	ours := kernel(rows)
	users, total := ours(t)
	if users != raceUsers {
		t.Fatalf("%d users", users)
	}
	for _, threads := range []int{0, 1} {
		setThreads(t, db, threads)
		theirs := duck(db)
		best := [2]time.Duration{time.Hour, time.Hour}
		for range rounds {
			for k, c := range []contender{ours, theirs} {
				start := time.Now()
				u, sum := c(t)
				best[k] = min(best[k], time.Since(start))
				if u != users || sum != total {
					t.Fatalf("%d users and %d ms, want %d and %d", u, sum, users, total)
				}
			}
		}
		t.Logf("%s: kernel %v, DuckDB %v, ratio %.2f",
			threadsOf(t, db), best[0], best[1], float64(best[0])/float64(best[1]))
		if best[0] > best[1]/2 {
			t.Errorf("more than half the time of %s", threadsOf(t, db))
		}
	}
}

func BenchmarkUnionTotals(b *testing.B) {
	rows := raceHistory()
	db := open(b)
	load(b, db, rows)
	race := func(name string, threads int, c contender) {
		b.Run(name, func(b *testing.B) {
			setThreads(b, db, threads)
			for b.Loop() {
				c(b)
			}
			b.ReportMetric(raceRows*float64(b.N)/b.Elapsed().Seconds(), "intervals/s")
		})
	}
	race("kernel", 0, kernel(rows))
	race("duckdb", 0, duck(db))
	race("duckdb-1-thread", 1, duck(db))
}
