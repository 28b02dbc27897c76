package duckdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// archived is an archive of some hours before and after a midnight, with connections of
// users who are named by numbers, and what could not be read.
func archived(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "archive")
	names, err := subjects.New(subjects.DefaultPrefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := archive.NewWriter(context.Background(), names, 0, archive.Config{Dir: dir, Device: func(id string) string { return "p-" + id }})
	if err != nil {
		t.Fatal(err)
	}
	const conns = 500
	rnd, at, seq := rand.New(rand.NewPCG(4, 2)), time.Date(2026, 11, 30, 22, 30, 0, 0, time.UTC), uint64(0)
	add := func(beats bool, subject string, data []byte, err error) {
		t.Helper()
		seq++
		if err == nil {
			err = w.Add(raw.Message{Beats: beats, Subject: subject, Seq: seq, Time: at, Data: data})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	frame := &wire.Frame{Version: 1, Incarnation: 1, Number: 1}
	for c := range conns {
		frame.Entries = append(frame.Entries, &wire.Entry{
			Kind: wire.Kind_KIND_OPEN, At: at.UnixMicro(), Conn: uint64(c + 1), Epoch: at.UnixMicro() + int64(c),
			User: strconv.Itoa(c % 200), Device: strconv.Itoa(c), State: wire.State_STATE_IDLE,
		})
	}
	data, err := subjects.EncodeFrame(frame)
	add(false, names.Log(0, "g1"), data, err)
	add(false, names.Log(0, "g1"), []byte("garbage"), nil)
	for range 180 {
		at = at.Add(time.Minute)
		var list []subjects.Beat
		for c := range conns {
			for n := range int32(rnd.IntN(3)) {
				list = append(list, subjects.Beat{Conn: uint64(c + 1), Offset: n*29_000 - 60_000 + rnd.Int32N(3_000), Flags: 1})
			}
		}
		data, err := subjects.Encode(subjects.PackBeats(1, rollcall.MicrosOf(at), 28_500, 0, list))
		add(true, names.Beats(0, "g1"), data, err)
		if rnd.IntN(20) == 0 {
			if err := w.Commit(t.Context(), at.UnixMilli()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Commit(t.Context(), at.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// DuckDB reads an archive as it lies there: partitions, types, every event; and its
// union of the heartbeats, of half a minute each, is that of the kernel.
func TestDuckDBReadsAnArchive(t *testing.T) {
	dir, db := archived(t), open(t)
	exec(t, db, fmt.Sprintf(`create view events as select * from read_parquet('%s/events/**/*.parquet', hive_partitioning = true)`, dir))
	exec(t, db, `create or replace table session as
		select cast("user" as uinteger) person, epoch_ms("at") since, epoch_ms("at") + 30000 till from events where kind = 'beat'`)

	a, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var rows []interval.Keyed
	events, foreground := 0, 0
	all := interval.Interval{From: interval.Earliest, To: interval.Latest}
	err = a.Read(t.Context(), all, func(e archive.Event) error {
		events++
		if e.Foreground {
			foreground++
		}
		user, err := strconv.ParseUint(e.User, 10, 32)
		if e.Kind == ledger.KindBeat {
			rows = append(rows, interval.Keyed{Key: uint32(user), Interval: interval.Interval{From: e.At, To: e.At + 30_000}})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	compareUnions(t, db, rows)

	for question, want := range map[string]int{
		`select count(*) from events`:                  events,
		`select count(*) from events where foreground`: foreground,
		`select count(*) from events where date <> cast("at" as date) or hour <> extract('hour' from "at")`:                                   0,
		`select count(distinct date) from events`:                                                                                             2,
		`select count(*) from events where stored_at < "at" or device not like 'p-%'`:                                                         0,
		`select count(*) from events where kind = 'open'`:                                                                                     500,
		fmt.Sprintf(`select count(*) from read_parquet('%s/rejected/**/*.parquet', hive_partitioning = true) where message = 'garbage'`, dir): 1,
	} {
		var got int
		if err := db.QueryRowContext(t.Context(), question).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d; %v", question, got, want, err)
		}
	}
	if events < 50_000 {
		t.Errorf("%d events are too few", events)
	}
}
