package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// open gives an empty store.
func open(t testing.TB) *store.SQL {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func config(t testing.TB, s store.Store, d ledger.Definition) Config {
	t.Helper()
	if err := s.Define(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return Config{
		Apply: s.Apply, Definition: d, Name: "history.csv", At: time.Unix(1_800_000_000, 0).UTC(), Dir: t.TempDir(),
		Device: func(id string) string { return "p-" + id },
	}
}

func run1(t testing.TB, c Config, text string) Summary {
	t.Helper()
	done, err := Run(t.Context(), c, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// told is what a store has, in words: a session a line, in seconds.
func told(t testing.TB, s store.Store, version string, m ledger.Measure) (lines []string) {
	t.Helper()
	for x, err := range s.Sessions(t.Context(), store.Query{Definition: version, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}) {
		if err != nil {
			t.Fatal(err)
		}
		line := x.User + " " + x.Device
		for _, i := range x.Intervals[m] {
			line += fmt.Sprintf(" %g-%g", float64(i.From)/1000, float64(i.To)/1000)
		}
		lines = append(lines, line)
	}
	return lines
}

func refused(t testing.TB, s store.Store) (lines []string) {
	t.Helper()
	for r, err := range s.Quarantined(t.Context(), store.QuarantineQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, r.Source+" "+r.Rule+": "+r.Reason)
	}
	return lines
}

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name, text string
		gapCap     time.Duration
		measure    ledger.Measure
		want       []string
	}{
		{"open and close", "0,ann,d,open\n100,ann,d,close\n", time.Minute, ledger.Connected, []string{"ann p-d 0-100"}},
		{"without a gap cap", "0,ann,d,open\n30,ann,d,beat\n900,ann,d,close\n", 0, ledger.Connected, []string{"ann p-d 0-900"}},
		{"beats and a gap", "0,ann,d,open\n30,ann,d,beat\n900,ann,d,beat\n910,ann,d,close\n", time.Minute, ledger.Connected, []string{"ann p-d 0-60 900-910"}},
		{"a crash", "0,ann,d,open\n30,ann,d,beat\n900,ann,d,timeout\n", time.Minute, ledger.Connected, []string{"ann p-d 0-60"}},
		{"never closed", "0,ann,d,open\n", time.Minute, ledger.Connected, []string{"ann p-d 0-30"}},
		{"beats only", "0,ann,d,beat\n30,ann,d,beat\n", time.Minute, ledger.Connected, []string{"ann p-d 0-60"}},
		{"an empty session", "5,ann,d,open\n5,ann,d,close\n7,ann,d,open\n9,ann,d,close\n", 0, ledger.Connected, []string{"ann p-d", "ann p-d 7-9"}},
		{"an empty session, told the other way round", "5,ann,d,close\n5,ann,d,open\n", 0, ledger.Connected, []string{"ann p-d"}},
		{"sessions that touch", "0,ann,d,open\n1,ann,d,close\n1,ann,d,open\n2,ann,d,close\n", 0, ledger.Connected, []string{"ann p-d 0-1", "ann p-d 1-2"}},
		{"sessions that touch, told the other way round", "0,ann,d,open\n1,ann,d,open\n1,ann,d,close\n2,ann,d,close\n", 0, ledger.Connected, []string{"ann p-d 0-1", "ann p-d 1-2"}},
		{"a reconnect", "0,ann,d,open\n20,ann,d,open\n40,ann,d,close\n", 0, ledger.Connected, []string{"ann p-d 0-40"}},
		{"two devices", "0,ann,a,open\n1,ann,b,open\n2,ann,a,close\n3,ann,b,close\n", 0, ledger.Connected, []string{"ann p-a 0-2", "ann p-b 1-3"}},
		{"background", "0,ann,d,open\n10,ann,d,background\n20,ann,d,foreground\n30,ann,d,close\n", 0, ledger.Foreground, []string{"ann p-d 0-10 20-30"}},
		{"active", "0,ann,d,open\n10,ann,d,active\n400,ann,d,close\n", 0, ledger.Active, []string{"ann p-d 10-310"}},
		{"header, dates, order", "\ufeffuser,time,event,device\r\nann,1970-01-01T00:00:09Z,close,d\r\n\r\nann,1970-01-01T01:00:00.5+01:00,open,\"d\"\r\n", 0, ledger.Connected, []string{"ann p-d 0.5-9"}},
		{"JSON", `{"time":1.1,"user":"ann","device":"d","event":"open","seq":1}` + "\n" + `{"time":"1970-01-01T00:00:02Z","user":"ann","device":"d","event":"close","seq":2}`, 0, ledger.Connected, []string{"ann p-d 1.1-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			d, err := definition.With(definition.Default(), &c.gapCap, nil)
			if err != nil {
				t.Fatal(err)
			}
			run1(t, config(t, s, d), c.text)
			if got := told(t, s, d.Version, c.measure); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if bad := refused(t, s); len(bad) > 0 {
				t.Errorf("refused: %q", bad)
			}
		})
	}
}

// A heartbeat that comes after the close is refused, and does not make a source one that
// has heartbeats: what was connected throughout stays so.
func TestStrayBeat(t *testing.T) {
	s := open(t)
	run1(t, config(t, s, definition.Default()), "0,ann,d,open\n900,ann,d,close\n950,ann,d,beat\n")
	if got := told(t, s, "1", ledger.Connected); !reflect.DeepEqual(got, []string{"ann p-d 0-900"}) {
		t.Errorf("%q", got)
	}
	if bad := refused(t, s); len(bad) != 1 || !strings.HasPrefix(bad[0], "history.csv:3 beat_after_close") {
		t.Errorf("%q", bad)
	}
}

// What breaks a rule is in quarantine under the rule's name and the line's number.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"columns", "0,ann,d,open\n1,ann,d\n", "history.csv:2 invalid_input: 3 columns"},
		{"no time", "time,user,device,event\n,ann,d,open\n", "history.csv:2 invalid_input: no time"},
		{"a time without zone", "2026-01-01 00:00:00,ann,d,open\n", "history.csv:1 invalid_input: time"},
		{"no user", "0,,d,open\n", "history.csv:1 invalid_input: no user"},
		{"an event nobody knows", "0,ann,d,login\n", `history.csv:1 invalid_input: event "login"`},
		{"seq", "0,ann,d,open,-1\n", `history.csv:1 invalid_input: seq "-1"`},
		{"JSON", "{\"time\":\n", "history.csv:1 invalid_input: no JSON event"},
		{"a quote", "0,\"ann,d,open\n", "history.csv:1 invalid_input:"},
		{"a long line", "0,ann,d,open," + strings.Repeat("1", maxLine) + "\n", "history.csv:1 invalid_input:"},
		{"no text", "0,a\x00n,d,open\n", "history.csv:1 invalid_input: user"},
		{"a time far away", "1e300,ann,d,open\n", "history.csv:1 invalid_input: time"},
		{"a beat after the close", "0,ann,d,open\n1,ann,d,close\n2,ann,d,beat\n", "history.csv:3 beat_after_close:"},
		{"a close before any open", "0,ann,d,close\n", "history.csv:1 end_before_start:"},
		{"a sequence that went back", "0,ann,d,open,5\n1,ann,d,beat,4\n", "history.csv:2 sequence_went_back:"},
		{"a session too long", "0,ann,d,open\n700000,ann,d,close\n", "history.csv:1 session_too_long:"},
		{"foreground without connection", "0,ann,d,open\n1,ann,d,foreground\n900,ann,d,background\n1000,ann,d,beat\n", "active_foreground_connected:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			d := definition.Default()
			if strings.Contains(c.want, "too_long") {
				d.Gaps.Cap = 0
			}
			run1(t, config(t, s, d), c.text)
			if got := refused(t, s); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestHeaderWithoutUser(t *testing.T) {
	s := open(t)
	if _, err := Run(t.Context(), config(t, s, definition.Default()), strings.NewReader("time,device,event\n")); err == nil || !strings.Contains(err.Error(), `"user"`) {
		t.Errorf("%v", err)
	}
}

// history is random lines; no two events of a device share an instant.
func history(rnd *rand.Rand, users, events int) (lines []string) {
	kinds := []string{"open", "beat", "beat", "beat", "foreground", "background", "active", "idle", "close", "timeout"}
	at := map[string]int{}
	for range events {
		user, device := fmt.Sprint("u", rnd.IntN(users)), fmt.Sprint("d", rnd.IntN(2))
		at[user+device] += 1 + rnd.IntN(90)
		lines = append(lines, fmt.Sprintf("%d,%s,%s,%s", at[user+device], user, device, kinds[rnd.IntN(len(kinds))]))
	}
	return lines
}

// Order and repetition of lines, and the size of memory, make no difference to sessions.
func TestOrderAndRepetition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 4 {
		lines := history(rnd, 6, 700)
		var want []string
		for round, chunk := range []int{0, 10, 97, 1000} {
			s := open(t)
			c := config(t, s, definition.Default())
			c.Chunk = chunk
			run1(t, c, strings.Join(lines, "\n"))
			got := told(t, s, "1", ledger.Connected)
			got = append(got, told(t, s, "1", ledger.Active)...)
			if round == 0 {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d differs", round)
			}
			lines = append(lines, lines[rnd.IntN(len(lines))], lines[rnd.IntN(len(lines))])
			rnd.Shuffle(len(lines), func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
		}
	}
}

func TestImportedTwice(t *testing.T) {
	s := open(t)
	c := config(t, s, definition.Default())
	text := strings.Join(history(rand.New(rand.NewPCG(5, 6)), 5, 500), "\n") + "\nnonsense\n"
	first := run1(t, c, text)
	sessions, bad := told(t, s, "1", ledger.Connected), refused(t, s)
	c.At = c.At.Add(time.Hour)
	second := run1(t, c, text)
	if second.Sessions != 0 || second.Rejected != 0 || second.Known != first.Sessions+first.Rejected || first.Rejected == 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if !reflect.DeepEqual(told(t, s, "1", ledger.Connected), sessions) || !reflect.DeepEqual(refused(t, s), bad) {
		t.Error("the store has changed")
	}
}

// A file that has grown corrects the session that was open at its end.
func TestLongerHistory(t *testing.T) {
	s := open(t)
	c := config(t, s, definition.Default())
	run1(t, c, "0,ann,d,open\n30,ann,d,beat\n")
	run1(t, c, "0,ann,d,open\n30,ann,d,beat\n70,ann,d,close\n")
	run1(t, c, "0,ann,d,open\n")
	if got := told(t, s, "1", ledger.Connected); !reflect.DeepEqual(got, []string{"ann p-d 0-60"}) {
		t.Errorf("%q", got)
	}
}

// An import that was killed is done again, and nothing is doubled.
func TestInterrupted(t *testing.T) {
	lines := history(rand.New(rand.NewPCG(7, 8)), 400, 30_000)
	text := strings.Join(lines, "\n")
	whole, cut := open(t), open(t)
	run1(t, config(t, whole, definition.Default()), text)
	c := config(t, cut, definition.Default())
	killed := errors.New("killed")
	batches := 0
	c.Apply = func(ctx context.Context, b store.Batch) (store.Applied, error) {
		if batches++; batches == 2 {
			return store.Applied{}, killed
		}
		return cut.Apply(ctx, b)
	}
	if _, err := Run(t.Context(), c, strings.NewReader(text)); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	if n := len(told(t, cut, "1", ledger.Connected)); n == 0 {
		t.Error("nothing was stored before")
	}
	c.Apply = cut.Apply
	run1(t, c, text)
	if !reflect.DeepEqual(told(t, cut, "1", ledger.Connected), told(t, whole, "1", ledger.Connected)) {
		t.Error("sessions differ")
	}
}

func TestForgottenUsersStayAway(t *testing.T) {
	s := open(t)
	c := config(t, s, definition.Default())
	text := "0,ann,d,open\n5,ann,d,close\n6,ann,d,dance\n0,bob,d,open\n"
	run1(t, c, text)
	if n, err := s.Forget(t.Context(), "ann", c.At); n.Sessions != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	done := run1(t, c, text)
	if got := told(t, s, "1", ledger.Connected); !reflect.DeepEqual(got, []string{"bob p-d 0-30"}) || done.Forgotten != 2 || len(refused(t, s)) != 0 {
		t.Errorf("%q, %+v", got, done)
	}
}

// generated is a history of any length that nobody holds in memory.
type generated struct {
	lines, n int
	left     []byte
}

func (g *generated) Read(p []byte) (int, error) {
	for len(g.left) == 0 {
		if g.n == g.lines {
			return 0, io.EOF
		}
		// Ten lines a session: open, eight beats, close. A line in 1000 is broken.
		const users = 5000
		step, session := g.n/users, g.n%users
		kind := "beat"
		switch step % 10 {
		case 0:
			kind = "open"
		case 9:
			kind = "close"
		}
		if g.n%1000 == 999 {
			kind = "?"
		}
		g.left = fmt.Appendf(g.left[:0], "%d,user%d,phone,%s\n", 1_700_000_000+step*30, session, kind)
		g.n++
	}
	n := copy(p, g.left)
	g.left = g.left[n:]
	return n, nil
}

// A million lines in bounded memory, with progress, and again without doubling.
func TestMillionLines(t *testing.T) {
	lines := 1_000_000
	if testing.Short() {
		lines = 100_000
	}
	s := open(t)
	c := config(t, s, definition.Default())
	var peak uint64
	words := 0
	c.Progress = func(Progress) {
		words++
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	start := time.Now()
	first, err := Run(t.Context(), c, &generated{lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lines in %v, at most %d MiB: %+v", lines, time.Since(start).Round(time.Millisecond), peak>>20, first)
	if first.Lines != int64(lines) || first.Rejected < lines/1000 || words < 2*lines/often {
		t.Errorf("%+v, %d words of progress", first, words)
	}
	if peak > 200<<20 {
		t.Errorf("%d MiB", peak>>20)
	}
	again, err := Run(t.Context(), c, &generated{lines: lines / 5})
	if err != nil || again.Sessions != 0 || again.Rejected != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"0,ann,d,open", `{"time":1,"user":"a","device":"d","event":"beat"}`, "\"0\",\"a\",b,close,7", "2026-01-01T00:00:00Z,a,b,idle"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var format Format
		e, err := format.Parse(line)
		if err == nil && (e.User == "" || e.Device == "" || e.Kind == 0 || e.At < interval.Earliest || e.At >= interval.Latest) {
			t.Errorf("%q reads as %+v", line, e)
		}
	})
}
