package archive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var errKilled = errors.New("killed")

// A life is what a process does with a history: it archives, merges, and cuts a user out
// amid all that. It can be lived again from wherever it ended.
type life struct {
	h         *history
	dir       string
	forgotten bool // in the store, which outlives the process
}

const forgottenUser = "user-1"

func (l *life) config(d disk) Config {
	cfg := config(l.dir)
	cfg.disk, cfg.Buffer = d, 60
	cfg.Forgotten = func(_ context.Context, user string) (bool, error) { return l.forgotten && user == forgottenUser, nil }
	return cfg
}

func (l *life) live(ctx context.Context, d disk) error {
	w, err := NewWriter(ctx, l.h.names, 0, l.config(d))
	if err != nil {
		return err
	}
	m, err := w.load()
	if err != nil {
		return err
	}
	if err := w.tidy(m); err != nil {
		return err
	}
	forgot := false
	for again := true; again; {
		again = false
		rest := l.h.behind(w.Position())
		for i, msg := range rest {
			if err := w.Add(msg); err != nil {
				return err
			}
			if !forgot && len(rest)-i < len(l.h.messages)/2 { // and so also if it was killed on the way
				forgot, l.forgotten = true, true
				if _, err := (&Archive{place: w.place}).Forget(ctx, forgottenUser); err != nil {
					return err
				}
			}
			if i%15 != 14 && i != len(rest)-1 {
				continue
			}
			err := w.Commit(ctx, msg.Time.UnixMilli())
			if again = errors.Is(err, ErrForgotten); again {
				break
			}
			if err != nil {
				return err
			}
			if err := mergeAll(ctx, w.place); err != nil {
				return err
			}
		}
	}
	return nil
}

func mergeAll(ctx context.Context, p place) error {
	for {
		if n, err := p.compact(ctx); err != nil || n == 0 {
			return err
		}
	}
}

// A process that is killed before any change of the disk, or amid any write, has
// archived everything once when another one has gone on.
func TestKilledAtEveryStep(t *testing.T) {
	h := random(t, 4, 60)
	events, rejected := h.told()
	events = slices.DeleteFunc(events, func(e Event) bool { return e.User == forgottenUser })
	steps := 0
	whole := &life{h: h, dir: t.TempDir()}
	if err := whole.live(t.Context(), disk{hasty: true, step: func(string, string) error { steps++; return nil }}); err != nil {
		t.Fatal(err)
	}
	same(t, whole.dir, events, rejected)
	stride := 1
	if testing.Short() {
		stride = 29
	}
	for n := 1; n <= steps; n += stride {
		l, left := &life{h: h, dir: filepath.Join(t.TempDir(), "archive")}, n
		var last string
		err := l.live(t.Context(), disk{hasty: true, step: func(op, path string) error {
			if left--; left > 0 {
				return nil
			}
			if left == 0 {
				last = op + " " + path
			}
			return errKilled
		}})
		if !errors.Is(err, errKilled) {
			t.Fatalf("step %d: %v", n, err)
		}
		if err := l.live(t.Context(), disk{hasty: true}); err != nil {
			t.Fatalf("after step %d, %s: %v", n, last, err)
		}
		same(t, l.dir, events, rejected)
		onlyWhatCounts(t, l.dir)
	}
	t.Logf("%d steps", steps)
}

// onlyWhatCounts: a process that starts removes what nobody needs.
func onlyWhatCounts(t *testing.T, dir string) {
	t.Helper()
	p := place{disk{hasty: true}, dir}
	m, err := p.load()
	if err == nil {
		err = p.update(t.Context(), func(*manifest) error { return nil })
	}
	if err == nil {
		err = p.tidy(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	counts := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".parquet" {
			counts++
		}
		return err
	})
	if err != nil || counts != len(m.Files) {
		t.Errorf("%d files, and %d count; %v", counts, len(m.Files), err)
	}
	if parts, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*"+partSuffix)); err != nil || len(parts) > 0 {
		t.Errorf("left: %v, %v", parts, err)
	}
	if states, err := os.ReadDir(filepath.Join(dir, stateDir)); err != nil || len(states) != 1 {
		t.Errorf("states: %v, %v", states, err)
	}
}
