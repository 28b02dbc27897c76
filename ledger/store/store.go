package store

import (
	"context"
	"iter"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Store is what the parts of the ledger need of a database. It is safe for concurrent
// use, also by several processes. Sequences end after the first error.
type Store interface {
	// Define makes a definition known and the newest in use. Doing it again changes
	// nothing; other rules under a known version are ErrDefinition.
	Define(ctx context.Context, d ledger.Definition) error
	// Definitions lists what is known, the one used last first.
	Definitions(ctx context.Context) ([]Defined, error)

	// BeginRebuild makes the definition of a rebuild known, though not the one used last,
	// and notes that figures of the period may be missing.
	BeginRebuild(ctx context.Context, d ledger.Definition, r Rebuild) error
	// EndRebuild notes that they are complete, and forgets its checkpoints.
	EndRebuild(ctx context.Context, r Rebuild) error
	// Rebuilds lists what was rebuilt, and what is being so, the newest first.
	Rebuilds(ctx context.Context) ([]Rebuild, error)
	// Drop removes a version that only rebuilds have written, with everything under it, and
	// says how many sessions it had. Its name is free again. Any other version is ErrInUse:
	// its raw events may be gone. Lines that cannot be read stay in quarantine, since they
	// are wrong under every definition.
	Drop(ctx context.Context, version string) (int64, error)

	// Apply stores a batch in one transaction.
	Apply(ctx context.Context, b Batch) (Applied, error)
	// Checkpoint is how far a source has been read under a definition; its revision is 0
	// if it never was.
	Checkpoint(ctx context.Context, definition, source string) (Checkpoint, error)

	// Intervals streams what lies at least in part within the query's bounds, all rows
	// of a user together and by start. Intervals are as stored, not clipped.
	Intervals(ctx context.Context, q Query) iter.Seq2[Row, error]
	// Sessions streams sessions with their intervals, all of a user together and by
	// start.
	Sessions(ctx context.Context, q Query) iter.Seq2[ledger.Session, error]

	// Pairs streams the sessions of two definitions side by side, user by user.
	Pairs(ctx context.Context, against string, q Query) iter.Seq2[Pair, error]

	// PutDaily replaces the totals of days [from, to) of a definition, zone and measure,
	// which are kept from then on: see [Batch.Refresh]. Days whose sessions were pruned
	// stay as they are.
	PutDaily(ctx context.Context, k DailyKey, from, to interval.Date, totals iter.Seq2[Daily, error]) error
	// Daily streams totals by user and day.
	Daily(ctx context.Context, k DailyKey, from, to interval.Date) iter.Seq2[Daily, error]

	// Quarantined streams what was refused, in the order of ids.
	Quarantined(ctx context.Context, q QuarantineQuery) iter.Seq2[Quarantined, error]
	// Release marks a row as dealt with. A whole session becomes one that counts.
	Release(ctx context.Context, id string, at time.Time) (Quarantined, error)

	// Audit notes who did what.
	Audit(ctx context.Context, a Audit) error
	// Audits streams the notes, oldest first.
	Audits(ctx context.Context) iter.Seq2[Audit, error]

	// SetRules replaces the rules of access. They lose who was forgotten.
	SetRules(ctx context.Context, r access.Rules) error
	// Rules are the rules of access.
	Rules(ctx context.Context) (access.Rules, error)

	// Forget removes a user from all tables for good and says what there was. The user is
	// kept out also if there was nothing.
	Forget(ctx context.Context, user string, at time.Time) (Erased, error)
	// Forgotten says whether a user was forgotten.
	Forgotten(ctx context.Context, user string) (bool, error)
	// Forgets is how many users were forgotten. Whoever keeps names elsewhere, such as in
	// checkpoints, looks at them again when it has changed.
	Forgets(ctx context.Context) (int64, error)

	// Prune removes what ended, and what was refused, before an instant, and says how many rows.
	Prune(ctx context.Context, kind Kind, before time.Time) (int64, error)

	Close() error
}

// Defined is a definition that a store knows.
type Defined struct {
	ledger.Definition
	Hash    string
	Rebuilt bool // only by rebuilds: no import and no running ledger has used it
}

// A Batch is stored as a whole or not at all.
type Batch struct {
	Definition string // its version, which Define has made known
	Sessions   []ledger.Session
	Rejected   []ledger.Rejected
	// Daily are totals as they are from now on; one without time is removed.
	Daily []Total
	// Refresh computes the daily totals that are kept again, of the users and days that
	// the sessions change, in the same transaction.
	Refresh bool
	// Source, if not empty, has been read as far as Checkpoint says.
	Source     string
	Checkpoint Checkpoint
}

// A Checkpoint is what a reader needs to go on. Its meaning is the reader's.
type Checkpoint struct {
	// Revision counts the checkpoints of a source, from 1. A batch with any but the next
	// is refused with ErrOvertaken: another reader was faster.
	Revision int64
	Body     []byte
}

// Applied is what a batch changed. What was there already is not counted.
type Applied struct {
	Sessions, Rejected int
	Forgotten          int // sessions and refused events of users who were forgotten
}

// A Query chooses sessions or intervals.
type Query struct {
	Definition string
	Measure    ledger.Measure    // of intervals
	Bounds     interval.Interval // those that have an instant in it
	User       string            // only this one; empty for all
	Bare       bool              // of intervals only user and bounds, which costs half as much
}

// A Row is an interval with what reports group by.
type Row struct {
	User, Session, Device string
	Client                ledger.Client
	interval.Interval
}

// DailyKey names a table of daily totals.
type DailyKey struct {
	Definition, Zone string
	Measure          ledger.Measure
}

// A Total is one of the daily totals of a batch's definition.
type Total struct {
	Zone    string
	Measure ledger.Measure
	Daily
}

// Daily is what a user has on a local day.
type Daily struct {
	User       string
	Date       interval.Date
	Union, Sum int64 // ms
}

// Quarantined is something refused, as it is kept.
type Quarantined struct {
	ID, Definition, User string
	Refused              time.Time // when it was, anew with other words included; At is when it happened
	Released             time.Time // zero if it was not
	ledger.Rejected
}

// QuarantineQuery chooses what was refused; empty fields choose everything.
type QuarantineQuery struct {
	ID, Rule, User string
	Released       bool // those that were released too
}

// Erased is what a store had of a user, apart from notes of the audit.
type Erased struct {
	Sessions int64
	Rows     int64 // of all tables, sessions included; none of a user who was not known
}

// Audit is a note of who did what.
type Audit struct {
	At      time.Time
	Actor   string // the account that ran the command
	Action  string // such as export
	Subject string // the user it was about, if a single one
	Detail  string
}

// Kind is a kind of data that has a retention of its own.
type Kind string

// The kinds of data.
const (
	KindSessions   Kind = "sessions" // with intervals; totals stay as they are
	KindTotals     Kind = "totals"   // of days
	KindQuarantine Kind = "quarantine"
	KindAudit      Kind = "audit"
)
