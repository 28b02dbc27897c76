package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/session"
)

// filled is a builder with open, closed and final sessions.
func filled(t testing.TB, k *book) *session.Builder {
	b, err := session.New(k.config(usual))
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"a", "b", "c"} {
		label := event(ledger.KindForeground, int64(i)*70*mins+30*sec)
		label.Activity = "streaming"
		for _, e := range concat(one(event(ledger.KindOpen, int64(i)*70*mins)), beats(int64(i)*70*mins, int64(i)*70*mins+5*mins), one(label)) {
			e.Session = id
			b.Add(e)
		}
		over := event(ledger.KindClose, int64(i)*70*mins+5*mins)
		over.Session = id
		if b.Advance(over.At); id != "b" {
			b.Add(over)
		}
	}
	b.Publish()
	return b
}

func TestSnapshotOfAnotherDefinition(t *testing.T) {
	data := filled(t, newBook()).Snapshot()
	other := usual
	other.Idle = time.Minute
	if _, err := session.Restore(newBook().config(other), data); !errors.Is(err, session.ErrSnapshot) {
		t.Errorf("another definition: %v", err)
	}
	if _, err := session.Restore(newBook().config(usual), data[:len(data)-1]); !errors.Is(err, session.ErrSnapshot) {
		t.Errorf("cut short: %v", err)
	}
	b, err := session.Restore(newBook().config(usual), data)
	if err != nil || string(b.Snapshot()) != string(data) {
		t.Errorf("restored and saved again it differs: %v", err)
	}
}

// FuzzRestore: whatever is restored, nothing panics.
func FuzzRestore(f *testing.F) {
	f.Add(filled(f, newBook()).Snapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := session.Restore(newBook().config(usual), data)
		if err != nil {
			return
		}
		b.Publish()
		b.Add(event(ledger.KindBeat, 300*mins))
		b.Advance(2 * b.Watermark())
		b.Flush()
	})
}
