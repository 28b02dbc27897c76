package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/importer"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// list is a source in memory.
type list []store.Row

func (l list) Intervals(_ context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for _, r := range l {
			overlaps := r.From < q.Bounds.To && r.To > q.Bounds.From
			if overlaps && (q.User == "" || q.User == r.User) && !yield(r, nil) {
				return
			}
		}
	}
}

const minute = 60_000

func zone(t testing.TB, name string) *interval.Zone {
	t.Helper()
	z, err := interval.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// random is rows of a few users around a change of the clock, in whole minutes.
func random(rnd *rand.Rand, around int64) (rows list) {
	pick := func(names ...string) string { return names[rnd.IntN(len(names))] }
	for _, user := range []string{"ann", "bob", "eve"} {
		for n := range 2 + rnd.IntN(14) {
			from := around + int64(rnd.IntN(4*24*60)-2*24*60)*minute
			rows = append(rows, store.Row{
				User: user, Session: fmt.Sprint(user, n), Device: pick("phone", "laptop"),
				Client:   ledger.Client{Type: pick("web", "ios"), Version: pick("1", "2"), Channel: pick("beta", ""), Region: pick("eu", "us")},
				Interval: interval.Interval{From: from, To: from + int64(rnd.IntN(20*60))*minute},
			})
		}
	}
	return rows
}

// naive counts minute by minute, with the clock on the wall.
func naive(rows list, q Query, local *time.Location) []Row {
	type instant struct {
		key, who string
		at       int64
	}
	seen, totals := map[instant]bool{}, map[string]int64{}
	for _, r := range rows {
		for at := r.From; at < r.To; at += minute {
			if at < q.Bounds.From || at >= q.Bounds.To || q.User != "" && q.User != r.User {
				continue
			}
			wall := time.UnixMilli(at).In(local)
			year, week := wall.ISOWeek()
			values := map[Column]string{
				User: r.User, Device: r.Device, Client: r.Client.Type, Version: r.Client.Version, Channel: r.Client.Channel, Region: r.Client.Region,
				Day: wall.Format("2006-01-02"), Week: fmt.Sprintf("%d-W%02d", year, week), Month: wall.Format("2006-01"),
			}
			var keys []string
			for _, c := range q.By {
				keys = append(keys, values[c])
			}
			key := strings.Join(keys, "|")
			if i := (instant{key, r.User, at}); q.Sum || !seen[i] {
				seen[i] = true
				totals[key] += minute
			}
		}
	}
	var answer []Row
	for key, total := range totals {
		answer = append(answer, Row{Keys: strings.Split(key, "|"), Total: total})
	}
	slices.SortFunc(answer, func(a, b Row) int { return slices.Compare(a.Keys, b.Keys) })
	return answer
}

func TestLikeNaiveCounting(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for n := range 240 {
		name := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"}[n%6]
		around := time.Date(2026, []time.Month{3, 10, 4, 11, 12}[n%5], []int{29, 25, 5, 1, 31}[n%5], 0, 0, 0, 0, time.UTC).UnixMilli()
		rows := random(rnd, around)
		q := Query{Measure: ledger.Connected, Zone: zone(t, name), Sum: rnd.IntN(2) == 0, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}
		if rnd.IntN(2) == 0 {
			q.Bounds.From = around + int64(rnd.IntN(3000)-2000)*minute
			q.Bounds.To = q.Bounds.From + int64(rnd.IntN(3000))*minute
		}
		if rnd.IntN(4) == 0 {
			q.User = "bob"
		}
		for _, k := range rnd.Perm(len(columns))[:1+rnd.IntN(4)] {
			q.By = append(q.By, columns[k])
		}
		local, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(t.Context(), rows, q)
		if want := naive(rows, q, local); err != nil || !(len(got) == 0 && len(want) == 0) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%d: %s %v sum %v: %v, %v, want %v", n, name, q.By, q.Sum, got, err, want)
		}
	}
}

// stored puts rows into a store, each as a session of its own.
func stored(t *testing.T, rows list) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Define(t.Context(), definition.Default()); err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Definition: "1"}
	for n, r := range rows {
		if !r.Empty() {
			b.Sessions = append(b.Sessions, ledger.Session{
				ID: fmt.Sprint(n), User: r.User, Device: r.Device, Client: r.Client, Start: r.From, End: r.To, Revision: 1,
				Intervals: map[ledger.Measure][]interval.Interval{ledger.Foreground: {r.Interval}},
			})
		}
	}
	if _, err := s.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return s
}

// The same from a store, with any columns, all of them included; and no day is longer
// than it is.
func TestStoresLikeNaiveCounting(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	zones := []string{"Europe/Berlin", "Australia/Lord_Howe", "UTC", "America/New_York", "America/Havana", "Pacific/Apia"}
	if testing.Short() {
		zones = zones[:2]
	}
	for _, name := range zones {
		around := time.Date(2026, []time.Month{3, 10, 4, 11, 12}[rnd.IntN(5)], 29, 0, 0, 0, 0, time.UTC).UnixMilli()
		rows := random(rnd, around)
		s := stored(t, rows)
		local, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 15 {
			q := Query{Definition: "1", Measure: ledger.Foreground, Zone: zone(t, name), Sum: n%2 == 0}
			q.Bounds = interval.Interval{From: interval.Earliest, To: interval.Latest}
			if n%3 == 0 {
				q.Bounds.From = around + int64(rnd.IntN(3000)-2000)*minute
				q.Bounds.To = q.Bounds.From + int64(rnd.IntN(3000))*minute
			}
			for _, k := range rnd.Perm(len(columns))[:1+rnd.IntN(len(columns))] {
				q.By = append(q.By, columns[k])
			}
			team := []string{"ann", "bob", "eve"}
			from, of := Source(s), rows
			if n%5 == 0 {
				team = team[1:]
				from = Only(s, team)
				of = slices.DeleteFunc(slices.Clone(rows), func(r store.Row) bool { return r.User == "ann" })
			}
			got, err := Run(t.Context(), from, q)
			if want := naive(of, q, local); err != nil || !(len(got) == 0 && len(want) == 0) && !reflect.DeepEqual(got, want) {
				t.Fatalf("%d: %s %v sum %v: %v, %v, want %v", n, name, q.By, q.Sum, got, err, want)
			}
		}
		q := Query{Definition: "1", Measure: ledger.Foreground, Zone: zone(t, name), By: []Column{Day, User}, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}
		days, err := Run(t.Context(), s, q)
		if err != nil || len(days) == 0 {
			t.Fatal(days, err)
		}
		for _, r := range days {
			d, err := interval.ParseDate(r.Keys[0])
			if length := q.Zone.Bounds(interval.Day, d).Length(); err != nil || r.Total > length {
				t.Errorf("%s: %v has %d ms, the day %d", name, r.Keys, r.Total, length)
			}
		}
	}
}

// imported goes the whole way: lines, sorter, builder, store.
func imported(t *testing.T, lines []string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := definition.Default()
	d.Gaps.Cap = 0
	if err := s.Define(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	_, err = importer.Run(t.Context(), importer.Config{
		Apply: s.Apply, Definition: d, Name: "vectors", Dir: t.TempDir(), Device: func(id string) string { return id },
	}, strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range s.Quarantined(t.Context(), store.QuarantineQuery{}) {
		t.Errorf("refused: %+v, %v", r, err)
	}
	return s
}

func vectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../interval/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func all(s store.Store, z *interval.Zone, by ...Column) (store.Store, Query) {
	return s, Query{Definition: "1", By: by, Measure: ledger.Connected, Zone: z, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}
}

// The vectors come from outside the project: every interval is a device of the user.
func TestUnionVectors(t *testing.T) {
	var list []struct {
		Name       string
		In         [][2]float64
		Total, Sum float64
	}
	vectors(t, "union.json", &list)
	var lines []string
	for n, v := range list {
		for k, i := range v.In {
			lines = append(lines, fmt.Sprintf("%v,u%d,d%d,open", i[0], n, k), fmt.Sprintf("%v,u%d,d%d,close", i[1], n, k))
		}
	}
	s, q := all(imported(t, lines), zone(t, "UTC"), User)
	for _, sum := range []bool{false, true} {
		q.Sum = sum
		rows, err := Run(t.Context(), s, q)
		if err != nil || len(rows) != len(list) {
			t.Fatalf("%v, %v", rows, err)
		}
		for n, v := range list {
			want := v.Total
			if sum {
				want = v.Sum
			}
			if rows[n].Keys[0] != fmt.Sprint("u", n) || rows[n].Total != int64(math.Round(want*1000)) {
				t.Errorf("%s: %v, want %v", v.Name, rows[n], want)
			}
		}
	}
}

func TestDaysVectors(t *testing.T) {
	var list []struct {
		Name, Zone string
		From, To   time.Time
		Days       map[string]int64
	}
	vectors(t, "days.json", &list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			s, q := all(imported(t, []string{v.From.Format(time.RFC3339) + ",u,d,open", v.To.Format(time.RFC3339) + ",u,d,close"}), zone(t, v.Zone), Day)
			rows, err := Run(t.Context(), s, q)
			got := map[string]int64{}
			for _, r := range rows {
				got[r.Keys[0]] = r.Total / 1000
			}
			if err != nil || !reflect.DeepEqual(got, v.Days) {
				t.Errorf("%v, %v, want %v", got, err, v.Days)
			}
			q.By = nil
			total := map[string]int64{}
			err = s.PutDaily(t.Context(), store.DailyKey{Definition: "1", Zone: v.Zone, Measure: q.Measure}, 0, 100_000, Daily(t.Context(), s, q))
			for d, err := range s.Daily(t.Context(), store.DailyKey{Definition: "1", Zone: v.Zone, Measure: q.Measure}, 0, 100_000) {
				if err != nil || d.Union != d.Sum || d.User != "u" {
					t.Errorf("%+v, %v", d, err)
				}
				total[d.Date.String()] = d.Union / 1000
			}
			if err != nil || !reflect.DeepEqual(total, v.Days) {
				t.Errorf("daily totals %v, %v", total, err)
			}
		})
	}
}

// Scenario 42: 40 minutes of sessions, 30 minutes of user.
func TestTwoTabs(t *testing.T) {
	s, q := all(imported(t, []string{
		"2026-01-01T10:00:00Z,ann,tab1,open", "2026-01-01T10:30:00Z,ann,tab1,close",
		"2026-01-01T10:10:00Z,ann,tab2,open", "2026-01-01T10:20:00Z,ann,tab2,close",
	}), zone(t, "UTC"))
	for sum, want := range map[bool]int64{false: 30 * minute, true: 40 * minute} {
		q.Sum = sum
		if rows, err := Run(t.Context(), s, q); err != nil || len(rows) != 1 || rows[0].Total != want {
			t.Errorf("%v, %v", rows, err)
		}
	}
	q.Bounds = interval.Interval{From: 0, To: 1}
	if rows, err := Run(t.Context(), s, q); err != nil || len(rows) != 1 || rows[0].Total != 0 {
		t.Errorf("nobody: %v, %v", rows, err)
	}
}

func TestFormats(t *testing.T) {
	by := []Column{User, Day}
	rows := []Row{{[]string{`a"b,c`, "2026-01-01"}, 1005}, {[]string{"bob", ""}, 60_000}}
	for format, want := range map[string]string{
		"table": "user   day         seconds\na\"b,c  2026-01-01  1.005\nbob    -           60.000\n",
		"csv":   "user,day,seconds\n\"a\"\"b,c\",2026-01-01,1.005\nbob,,60.000\n",
		"json":  "[\n  {\"user\": \"a\\\"b,c\", \"day\": \"2026-01-01\", \"seconds\": 1.005},\n  {\"user\": \"bob\", \"day\": \"\", \"seconds\": 60.000}\n]\n",
	} {
		var b bytes.Buffer
		if err := Write(&b, format, by, rows); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s", format, err, b.String())
		}
	}
}

func TestExports(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(1, 1)), 1_700_000_000_000)
	bounds := interval.Interval{From: 1_700_000_000_000, To: 1_700_000_000_000 + 600*minute}
	q := store.Query{Bounds: bounds}
	var table, columnar bytes.Buffer
	form := ExportForm{Format: "csv", Measure: ledger.Connected, Bounds: bounds}
	n, err := Export(&table, form, rows.Intervals(t.Context(), q))
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	lines, err := csv.NewReader(&table).ReadAll()
	if err != nil || int64(len(lines)) != n+1 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	form.Format = "parquet"
	if m, err := Export(&columnar, form, rows.Intervals(t.Context(), q)); m != n || err != nil {
		t.Fatal(m, err)
	}
	read, err := parquet.Read[Exported](bytes.NewReader(columnar.Bytes()), int64(columnar.Len()))
	if err != nil || int64(len(read)) != n {
		t.Fatalf("%d rows, %v", len(read), err)
	}
	for k, e := range read {
		line := []string{e.User, e.Device, e.Session, e.Client, e.Version, e.Channel, e.Region, e.Measure, instant(e.From), instant(e.To), fmt.Sprintf("%.3f", e.Seconds)}
		if !slices.Equal(line, lines[k+1]) {
			t.Errorf("Parquet %v, CSV %v", line, lines[k+1])
		}
		if e.From < bounds.From || e.To > bounds.To {
			t.Errorf("not clipped: %v", e)
		}
	}
	broken := errors.New("broken")
	failing := func(yield func(store.Row, error) bool) { yield(store.Row{}, broken) }
	if _, err := Export(new(bytes.Buffer), form, failing); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// Who may not know when, knows on which days and how long.
func TestExportsWithoutInstants(t *testing.T) {
	var b bytes.Buffer
	night := store.Row{User: "ann", Session: "tells the start", Device: "d", Interval: interval.Interval{
		From: time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC).UnixMilli(), To: time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC).UnixMilli(),
	}}
	form := ExportForm{Format: "csv", Measure: ledger.Connected, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}, Days: zone(t, "Europe/Berlin")}
	if _, err := Export(&b, form, list{night}.Intervals(t.Context(), store.Query{Bounds: form.Bounds})); err != nil {
		t.Fatal(err)
	}
	// The clock goes forward that night, and the second day ends when it is 22:00 in UTC.
	if want := "ann,d,,,,,,connected,2026-03-27T23:00:00.000Z,2026-03-29T22:00:00.000Z,86400.000\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%s", b.String())
	}
}

func TestQuestions(t *testing.T) {
	if by, err := ParseColumns([]string{"user,day", "region"}); err != nil || !slices.Equal(by, []Column{User, Day, Region}) {
		t.Errorf("%v, %v", by, err)
	}
	for _, names := range []string{"hour", "user,user", ""} {
		if _, err := ParseColumns([]string{names}); !errors.Is(err, ErrQuery) {
			t.Errorf("%q: %v", names, err)
		}
	}
	z := zone(t, "America/Havana")
	// The day on which midnight does not exist begins an hour later on the wall.
	b, err := ParseBounds(z, "2026-03-08", "2026-03-08T06:00:00.5Z")
	want := interval.Interval{From: time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC).UnixMilli(), To: time.Date(2026, 3, 8, 6, 0, 0, 5e8, time.UTC).UnixMilli()}
	if err != nil || b != want {
		t.Errorf("%v, %v", b, err)
	}
	for _, c := range [][2]string{{"yesterday", ""}, {"2026-01-02", "2026-01-01"}, {"", "2026-13-01"}} {
		if _, err := ParseBounds(z, c[0], c[1]); !errors.Is(err, ErrQuery) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := Run(t.Context(), list{}, Query{}); !errors.Is(err, ErrQuery) {
		t.Errorf("%v", err)
	}
}
