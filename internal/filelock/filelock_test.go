package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func take(t *testing.T, path string, mode Mode) *Lock {
	t.Helper()
	l, err := Try(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWhoExcludesWhom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := take(t, path, Shared), take(t, path, Shared)
	if _, err := Try(path, Exclusive); !errors.Is(err, ErrHeld) {
		t.Errorf("beside those who share: %v", err)
	}
	a.Release()
	b.Release()
	defer take(t, path, Exclusive).Release()
	for _, mode := range []Mode{Shared, Exclusive} {
		if _, err := Try(path, mode); !errors.Is(err, ErrHeld) {
			t.Errorf("beside one who does not: %v", err)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		held := take(t, path, Exclusive)
		time.AfterFunc(time.Minute, func() { held.Release() })
		start := time.Now()
		l, err := Wait(t.Context(), path, Shared)
		if waited := time.Since(start); err != nil || waited < time.Minute || waited > time.Minute+again {
			t.Errorf("after %v: %v", waited, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Wait(ctx, path, Exclusive); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of one that is never free: %v", err)
		}
		l.Release()
	})
}
