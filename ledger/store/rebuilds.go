package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// A Rebuild is a period that was computed again from the raw events, or is being so.
type Rebuild struct {
	Definition string // the version that its figures bear
	Bounds     interval.Interval
	Source     string    // where the raw events came from
	Ends       time.Time // what the source stored later is not in the figures
	Started    time.Time
	Finished   time.Time // zero while figures may be missing
}

// Checkpoint names the checkpoint of one part of the source.
func (r Rebuild) Checkpoint(part string) string { return r.checkpoints() + part }

func (r Rebuild) checkpoints() string {
	return fmt.Sprintf("%s%d-%d %s ", rebuildMark, r.Bounds.From, r.Bounds.To, r.Source)
}

// rebuildMark begins the names of the checkpoints of rebuilds.
const rebuildMark = "rebuild "

// BeginRebuild implements Store.
func (s *SQL) BeginRebuild(ctx context.Context, d ledger.Definition, r Rebuild) error {
	return wrap("begin a rebuild", s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.define(ctx, tx, d, "0", "definitions.used"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.q(`insert into rebuilds (definition, bounds_from, bounds_to, source, ends, started, finished)
			values (?, ?, ?, ?, ?, ?, 0)
			on conflict (definition, bounds_from, bounds_to, source) do update set finished = 0, ends = case
				when rebuilds.finished = 0 and rebuilds.ends < excluded.ends then rebuilds.ends else excluded.ends end`),
			d.Version, r.Bounds.From, r.Bounds.To, r.Source, r.Ends.UnixMilli(), r.Started.UnixMilli())
		return err
	}))
}

// EndRebuild implements Store.
func (s *SQL) EndRebuild(ctx context.Context, r Rebuild) error {
	return wrap("end a rebuild", s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.include(ctx, tx); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, s.q(`update rebuilds set finished = ?
			where definition = ? and bounds_from = ? and bounds_to = ? and source = ?`),
			r.Finished.UnixMilli(), r.Definition, r.Bounds.From, r.Bounds.To, r.Source)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("%w: rebuild of %q: %w", ErrUnknown, r.Definition, err)
		}
		_, err = tx.ExecContext(ctx, s.q("delete from checkpoints where definition = ? and substr(source, 1, ?) = ?"),
			r.Definition, len(r.checkpoints()), r.checkpoints())
		return err
	}))
}

// Rebuilds implements Store.
func (s *SQL) Rebuilds(ctx context.Context) (all []Rebuild, err error) {
	rows := stream(ctx, s, func(scan func(...any) error) (r Rebuild, err error) {
		var ends, started, finished int64
		err = scan(&r.Definition, &r.Bounds.From, &r.Bounds.To, &r.Source, &ends, &started, &finished)
		r.Ends = time.UnixMilli(ends).UTC()
		r.Started = time.UnixMilli(started).UTC()
		if finished != 0 {
			r.Finished = time.UnixMilli(finished).UTC()
		}
		return r, err
	}, `select definition, bounds_from, bounds_to, source, ends, started, finished from rebuilds
		order by started desc, definition, bounds_from, bounds_to, source`)
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Drop implements Store.
func (s *SQL) Drop(ctx context.Context, version string) (sessions int64, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		var rebuilt bool
		switch err := tx.QueryRowContext(ctx, s.q("select used = 0 from definitions where version = ?"), version).Scan(&rebuilt); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: definition %q", ErrUnknown, version)
		case err != nil:
			return err
		case !rebuilt:
			return fmt.Errorf("%w: %q", ErrInUse, version)
		}
		if _, err := tx.ExecContext(ctx, s.q("delete from quarantine where definition = ? and rule <> ?"), version, ledger.RuleInput); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.q("delete from definitions where version = ?"), version); err != nil {
			return err
		}
		for _, table := range []string{"intervals", "daily", "kept", "checkpoints", "rebuilds", "sessions"} {
			result, err := tx.ExecContext(ctx, s.q("delete from "+table+" where definition = ?"), version)
			if err != nil {
				return err
			}
			if sessions, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		return nil
	})
	return sessions, wrap("drop", err)
}
