package store

import (
	"strconv"
	"strings"
	"time"
)

// A dialect is where the two databases differ.
type dialect struct {
	rows     string // how a table is stored that is found by its primary key
	counter  string
	bytes    string
	numbered bool   // parameters are $1, $2 instead of ?
	exclude  string // waits for every other transaction that includes itself
	include  string
	purge    string // what was removed is in no file any more
	account  string // who is connected
	ended    string // the first day that may not have ended yet somewhere on Earth
}

var (
	sqlite = &dialect{
		rows: "without rowid", counter: "integer primary key", bytes: "blob",
		purge:   "pragma wal_checkpoint(truncate)",
		account: "''", ended: "date('now', '-12 hours')",
		// Transactions begin immediate, so there is one at a time.
	}
	postgres = &dialect{
		counter: "bigint generated always as identity primary key", bytes: "bytea", numbered: true,
		exclude: "select pg_advisory_xact_lock(7265108401)",
		include: "select pg_advisory_xact_lock_shared(7265108401)",
		account: "session_user", ended: "to_char(now() at time zone 'UTC' - interval '12 hours', 'YYYY-MM-DD')",
	}
)

func (d *dialect) ddl(text string) string {
	return strings.NewReplacer("{{rows}}", d.rows, "{{counter}}", d.counter, "{{bytes}}", d.bytes,
		"{{account}}", d.account, "{{ended}}", d.ended,
		"{{now}}", strconv.FormatInt(time.Now().UnixMilli(), 10)).Replace(text)
}

// query writes the parameters as the database wants them. Statements here hold no
// question mark that is none.
func (d *dialect) query(text string) string {
	if !d.numbered {
		return text
	}
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

// values is the list of n rows of parameters.
func values(rows, columns int) string {
	row := "(" + strings.Repeat("?, ", columns-1) + "?)"
	return strings.Repeat(row+", ", rows-1) + row
}
