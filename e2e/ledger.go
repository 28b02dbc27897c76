package e2e

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Ledger is a ledger process.
type Ledger struct {
	*Process
	*live.Ledger
	Database *Database
}

// StartLedger starts a ledger; the database is this process's way to it.
func (f *Fabric) StartLedger(d *Database, c live.Config) *Ledger {
	f.T.Helper()
	p := f.connect()
	l, err := live.New(p.nc, d, c)
	if err != nil {
		f.T.Fatal(err)
	}
	f.process(l.Run, p)
	return &Ledger{p, l, d}
}

// Kill ends the process without a word, to NATS or to its database.
func (l *Ledger) Kill() {
	l.Database.Away.Store(true)
	l.Process.Kill()
}

// Database is how one process reaches a store.
type Database struct {
	store.Store
	// Away is a database that does not answer.
	Away atomic.Bool
	// Before and After, if not nil, are called around every transaction; with an error it
	// fails, and after it, although it was stored.
	Before, After func() error
}

// ErrAway is what a database says that is away.
var ErrAway = errors.New("e2e: the database is away")

func (d *Database) reach(hook func() error) error {
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	if d.Away.Load() {
		return ErrAway
	}
	return nil
}

// Apply implements store.Store.
func (d *Database) Apply(ctx context.Context, b store.Batch) (store.Applied, error) {
	if err := d.reach(d.Before); err != nil {
		return store.Applied{}, err
	}
	done, err := d.Store.Apply(ctx, b)
	if err != nil {
		return done, err
	}
	return done, d.reach(d.After)
}

// Checkpoint implements store.Store.
func (d *Database) Checkpoint(ctx context.Context, definition, source string) (store.Checkpoint, error) {
	if err := d.reach(nil); err != nil {
		return store.Checkpoint{}, err
	}
	return d.Store.Checkpoint(ctx, definition, source)
}

// Define implements store.Store.
func (d *Database) Define(ctx context.Context, x ledger.Definition) error {
	if err := d.reach(nil); err != nil {
		return err
	}
	return d.Store.Define(ctx, x)
}
