package archive

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/filelock"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// filled is an archive of a history, with a commit every so many messages.
func filled(t testing.TB, h *history, every int) (Config, *Writer) {
	t.Helper()
	cfg := config(filepath.Join(t.TempDir(), "archive"))
	w := newWriter(t, h, cfg)
	for i, m := range h.messages {
		if err := w.Add(m); err != nil {
			t.Fatal(err)
		}
		if i%every == 0 || i == len(h.messages)-1 {
			if err := w.Commit(t.Context(), m.Time.UnixMilli()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return cfg, w
}

// Merging leaves one file of every two hours that are over, sorted, and everything in it.
func TestMerge(t *testing.T) {
	h := random(t, 3, 200)
	cfg, w := filled(t, h, 2)
	before, _ := Open(cfg.Dir)
	was, err := before.Hours()
	if err != nil {
		t.Fatal(err)
	}
	if err := mergeAll(t.Context(), w.place); err != nil {
		t.Fatal(err)
	}
	events, rejected := h.told()
	same(t, cfg.Dir, events, rejected)
	hours, err := before.Hours()
	if err != nil || len(hours) != len(was) {
		t.Fatalf("%d of %d, %v", len(hours), len(was), err)
	}
	through, _ := before.Through()
	merged := 0
	for i, now := range hours {
		over := now.Stored.Add(time.Hour).UnixMilli() <= through
		if over && now.Files != 1 || !over && now.Files != was[i].Files || now.Events != was[i].Events {
			t.Errorf("%+v became %+v", was[i], now)
		}
		if was[i].Files > fanIn && over {
			merged++
		}
	}
	if merged == 0 {
		t.Error("no hour had more files than are merged at once")
	}
	m, _ := w.load()
	for _, f := range m.table(eventsTable) {
		var last *row
		err := w.rows(t.Context(), f, func(rows []row) error {
			for _, r := range rows {
				if hourOf(r.At) != f.Hour || hourOf(r.StoredAt) != f.Stored {
					t.Errorf("%+v is not of the hours of %+v", r, f)
				}
				if last != nil && last.compare(&r) > 0 {
					t.Errorf("%+v comes before %+v", last, r)
				}
				last = &r
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Reading is not disturbed by what is merged, pruned or cut meanwhile: it sees what there
// was, and only then the files are gone.
func TestReadingWhileFilesAreReplaced(t *testing.T) {
	h := random(t, 5, 100)
	cfg, w := filled(t, h, 5)
	a, err := Open(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var seen []Event
	forgotten := make(chan error, 1)
	err = a.Read(t.Context(), everything, func(e Event) error {
		if len(seen) == 0 {
			if err := mergeAll(t.Context(), w.place); err != nil {
				return err
			}
			go func() {
				_, err := a.Forget(context.Background(), "user-1")
				forgotten <- err
			}()
		}
		seen = append(seen, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	events, _ := h.told()
	differ(t, "events", order(seen), order(events))
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	onlyWhatCounts(t, cfg.Dir)
}

// Who is forgotten is in no byte of the files of events, nor in a message that could not
// be read.
func TestForget(t *testing.T) {
	h := random(t, 6, 120)
	unread := append([]byte("garbage \x06"), "user-2 and more"...)
	h.add(false, h.names.Log(0, "g1"), h.messages[len(h.messages)-1].Time, unread)
	cfg, _ := filled(t, h, 20)
	a, _ := Open(cfg.Dir)
	events, rejected := h.told()
	left := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.User == "user-2" })
	for _, want := range []int{len(events) - len(left), 0} {
		if n, err := a.Forget(t.Context(), "user-2"); err != nil || int(n) != want {
			t.Errorf("forgot %d events, want %d; %v", n, want, err)
		}
	}
	same(t, cfg.Dir, left, rejected[:len(rejected)-1])
	if n, err := a.Forget(t.Context(), "nobody"); err != nil || n != 0 {
		t.Errorf("nobody had %d events, %v", n, err)
	}
}

func TestPrune(t *testing.T) {
	h := random(t, 8, 150)
	cfg, _ := filled(t, h, 20)
	a, _ := Open(cfg.Dir)
	events, _ := h.told()
	before := begin.Add(2*time.Hour + 25*time.Minute) // an hour that is not over stays
	from := before.Truncate(time.Hour)
	left := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return time.UnixMilli(e.At).Before(from) })
	if n, err := a.Prune(t.Context(), before); err != nil || n == 0 {
		t.Errorf("%d rows, %v", n, err)
	}
	got, _ := read(t, cfg.Dir)
	differ(t, "events", order(got), order(left))
	if len(left) == len(events) || len(left) == 0 {
		t.Errorf("%d of %d events left", len(left), len(events))
	}
}

// Bounds are those of when things happened.
func TestReadBounds(t *testing.T) {
	h := random(t, 9, 150)
	cfg, _ := filled(t, h, 20)
	a, _ := Open(cfg.Dir)
	events, _ := h.told()
	bounds := interval.Interval{From: begin.Add(50 * time.Minute).UnixMilli(), To: begin.Add(3 * time.Hour).UnixMilli()}
	want := slices.DeleteFunc(events, func(e Event) bool { return e.At < bounds.From || e.At >= bounds.To })
	var got []Event
	if err := a.Read(t.Context(), bounds, func(e Event) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	differ(t, "events", order(got), order(want))
	stop := errors.New("enough")
	if err := a.Read(t.Context(), bounds, func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader who has enough: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Read(ctx, bounds, func(Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// An event at no time that has a directory is kept apart.
func TestEventsAtNoTime(t *testing.T) {
	h := &history{names: namesOf(t, 1)}
	frame := &wire.Frame{Version: 1, Incarnation: 1, Number: 1, Entries: []*wire.Entry{
		{Kind: wire.Kind_KIND_OPEN, At: 1 << 61, Epoch: 1 << 61, Conn: 1, User: "ann", Device: "phone"},
	}}
	data, err := subjects.EncodeFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	h.add(false, h.names.Log(0, "g1"), begin, data)
	cfg, _ := filled(t, h, 1)
	events, rejected := read(t, cfg.Dir)
	if len(events) != 0 || len(rejected) != 1 || rejected[0].Rule != ledger.RuleInput || !strings.Contains(rejected[0].Reason, "no time") {
		t.Errorf("%v, %+v", events, rejected)
	}
}

// What cannot be read is there with all of its bytes.
func TestUnreadableMessages(t *testing.T) {
	h := &history{names: namesOf(t, 1)}
	long := []byte(strings.Repeat("garbage ", 500))
	h.add(true, h.names.Beats(0, "g1"), begin, long)
	cfg, w := filled(t, h, 1)
	_, rejected := read(t, cfg.Dir)
	if len(rejected) != 1 || rejected[0].Source != h.names.BeatsStream(0)+" 1" || !rejected[0].At.Equal(begin) {
		t.Fatalf("%+v", rejected)
	}
	m, _ := w.load()
	rows, err := w.refusals(m.table(rejectedTable)[0])
	if err != nil || string(rows[0].Message) != string(long) || rows[0].Position != 1 || rows[0].Stream != beatsStream {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestWhatIsNoArchive(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty directory: %v", err)
	}
	h := random(t, 1, 30)
	cfg, w := filled(t, h, 10)
	if _, err := NewWriter(t.Context(), namesOf(t, 2), 0, cfg); !errors.Is(err, ErrForeign) {
		t.Errorf("another fabric: %v", err)
	}
	for what, damage := range map[string]func(path string) error{
		"cut off": func(path string) error { return os.Truncate(path, 100) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("garbage", 99)), 0o600) },
		"another's": func(path string) error {
			m, _ := w.load()
			data, err := os.ReadFile(w.path(m.table(eventsTable)[1].Name))
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		},
	} {
		m, _ := w.load()
		path := w.path(m.table(eventsTable)[0].Name)
		whole, err := os.ReadFile(path)
		if err == nil {
			err = damage(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		a, _ := Open(cfg.Dir)
		if err := a.Read(t.Context(), everything, func(Event) error { return nil }); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]error{"{": ErrDamaged, `{"Version":2}`: ErrDamaged} {
		if err := os.WriteFile(filepath.Join(cfg.Dir, manifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg.Dir); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Dir: "x"}, {Dir: "x", Device: pseudonym, Every: -1}, {Dir: "x", Device: pseudonym, Buffer: -1}} {
		if _, err := New(nil, namesOf(t, 1), Options{Config: cfg}); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestOneArchiver(t *testing.T) {
	dir := t.TempDir()
	held, err := filelock.Try(filepath.Join(dir, archiverLock), filelock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	a, err := New(nil, namesOf(t, 1), Options{Config: config(dir)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
}

// A question that fails must not let anybody in who was forgotten.
func TestWhenNobodySaysWhoWasForgotten(t *testing.T) {
	h := random(t, 2, 30)
	cfg, broken := config(t.TempDir()), errors.New("no database")
	cfg.Forgotten = func(context.Context, string) (bool, error) { return false, broken }
	w := newWriter(t, h, cfg)
	var err error
	for _, m := range h.messages {
		err = errors.Join(err, w.Add(m))
	}
	if commit := w.Commit(t.Context(), 0); !errors.Is(err, broken) || !errors.Is(commit, broken) {
		t.Errorf("%v, %v", err, commit)
	}
	if events, _ := read(t, cfg.Dir); len(events) > 0 {
		t.Errorf("%d events all the same", len(events))
	}
}

// Many marks are thinned, and none is older than what it says.
func TestMarks(t *testing.T) {
	var marks []mark
	for i := range int64(3 * maxMarks) {
		marks = thinned(append(marks, mark{uint64(i), uint64(i), i}))
	}
	if len(marks) > maxMarks || marks[len(marks)-1].Time < 3*maxMarks-2 {
		t.Errorf("%d marks, up to %+v", len(marks), marks[len(marks)-1])
	}
	w := &Writer{reader: reader{Position: raw.Position{LogTime: time.UnixMilli(1000)}, Marks: []mark{{1, 1, 100}, {2, 2, 200}, {3, 3, 900}}}}
	if k, ok := w.due(800 * time.Millisecond); !ok || k.Log != 2 {
		t.Errorf("due %+v", k)
	}
	if k, ok := w.due(time.Second); ok {
		t.Errorf("due %+v", k)
	}
	w.purged(mark{2, 2, 200})
	if len(w.reader.Marks) != 1 {
		t.Errorf("%+v", w.reader.Marks)
	}
}

func TestHourOf(t *testing.T) {
	for at, want := range map[int64]int64{0: 0, hour - 1: 0, hour: hour, -1: -hour, -hour: -hour, -hour - 1: -2 * hour} {
		if got := hourOf(at); got != want {
			t.Errorf("%d: %d, want %d", at, got, want)
		}
	}
}

// A file with a bit that fell over is damaged, or says what it said.
func TestFallenBits(t *testing.T) {
	h := random(t, 11, 60)
	cfg, w := filled(t, h, 30)
	events, _ := h.told()
	want := order(events)
	m, _ := w.load()
	a, _ := Open(cfg.Dir)
	rnd, found := rand.New(rand.NewPCG(3, 3)), 0
	for range 60 {
		files := m.table(eventsTable)
		path := w.path(files[rnd.IntN(len(files))].Name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		broken := slices.Clone(whole)
		broken[rnd.IntN(len(broken))] ^= 1 << rnd.IntN(8)
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		var got []Event
		err = a.Read(t.Context(), everything, func(e Event) error { got = append(got, e); return nil })
		switch {
		case errors.Is(err, ErrDamaged):
			found++
		case err != nil:
			t.Errorf("%v", err)
		case !slices.Equal(order(got), want):
			t.Errorf("a bit of %s makes other events", path)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d found", found)
}
