package duckdb

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

const (
	minute int64 = 60_000
	hour         = 60 * minute
	day          = 24 * hour
)

// open is an empty database in memory.
func open(t testing.TB) *sql.DB {
	t.Helper()
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1) // settings such as threads are the connection's
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// load puts rows into a new table session, times in milliseconds.
func load(t testing.TB, db *sql.DB, rows []interval.Keyed) {
	t.Helper()
	exec(t, db, "create or replace table session (person uinteger, since bigint, till bigint)")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Raw(func(raw any) error { return appendRows(raw.(driver.Conn), rows) }); err != nil {
		t.Fatal(err)
	}
}

func appendRows(conn driver.Conn, rows []interval.Keyed) error {
	a, err := duckdb.NewAppenderFromConn(conn, "", "session")
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := a.AppendRow(r.Key, r.From, r.To); err != nil {
			a.Close()
			return fmt.Errorf("append: %w", err)
		}
	}
	return a.Close()
}

// history is rows of users over some days, with duplicates, empty rows and rows that
// touch, in any order.
func history(rnd *rand.Rand, start, length int64, rows, users int) []interval.Keyed {
	list := make([]interval.Keyed, 0, rows)
	for len(list) < rows {
		from := start + rnd.Int64N(length)
		r := interval.Keyed{
			Key:      rnd.Uint32N(uint32(users)),
			Interval: interval.Interval{From: from, To: from + rnd.Int64N(4*hour)},
		}
		list = append(list, r)
		switch rnd.IntN(12) {
		case 0:
			list = append(list, r)
		case 1:
			r.From, r.To = r.To, r.To+rnd.Int64N(2)
			list = append(list, r)
		}
	}
	rnd.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list
}

// united is DuckDB's union per person: a row begins a new island where it starts after
// all that started before it have ended. Rows are distinct first, since the two windows
// may put equal ones in different orders.
const united = `
	select person, min(since) since, max(till) till from (
		select *, count(*) filter (reached is null or since > reached)
			over (partition by person order by since, till rows unbounded preceding) island
		from (
			select *, max(till) over (
				partition by person order by since, till rows between unbounded preceding and 1 preceding) reached
			from (select distinct * from session where till > since)
		)
	) group by person, island`
