package cohort

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/subjects"
)

// Heartbeats come at a random moment of their last tenth, so that members do not beat in step.
const jitter = 0.1

// Pauses after a failed heartbeat.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// recordTTL ends the records of a group of which nobody is left. It is far above the timeout, since
// the store's expiry can hit a record that was renewed at the last moment, and above an outage of the
// store, at whose end it would expire everybody.
func recordTTL(t Timing) time.Duration { return max(10*t.Timeout, 24*time.Hour).Truncate(time.Second) }

// beat says at every heartbeat, and whenever the record has changed, that the member lives. It
// is the only one who writes its record after [Join].
func (m *Member) beat(ctx context.Context) error {
	reconnected := m.nc.StatusChanged(nats.CONNECTED)
	defer m.nc.RemoveStatusListener(reconnected)
	refusals := fabric.Refusals{Log: m.log, What: "heartbeats"}
	roamer := session.Roamer{Conn: m.nc, Log: m.log}
	for failed := 0; ; {
		wait := m.timing.Heartbeat - time.Duration(rand.Float64()*jitter*float64(m.timing.Heartbeat))
		if failed > 0 {
			wait = retry.Backoff(failed-1, firstPause, min(lastPause, m.timing.Heartbeat), rand.Int64N)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-m.beatNow:
		case <-reconnected:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		said, err := m.say(ctx)
		switch {
		case errors.Is(err, errUnregistered) && said != "":
			close(m.goodbye) // the coordinator was faster
			return nil
		case errors.Is(err, errUnregistered):
			err = m.again(ctx)
		case err == nil && said != "":
			close(m.goodbye)
			return nil
		}
		if errors.Is(err, ErrReplaced) {
			return err
		}
		if failed++; err == nil {
			failed = 0
		}
		if ctx.Err() == nil {
			refusals.Note(err)
			roamer.Note(err)
		}
	}
}

// say writes the record once, and returns the goodbye that it said.
func (m *Member) say(ctx context.Context) (subjects.CohortBye, error) {
	record, expected := m.record()
	revision, err := m.store.put(ctx, m.key(), record, expected, recordTTL(m.timing))
	if err == nil {
		m.heard(revision)
		return record.Bye, nil
	}
	if !errors.Is(err, errConflict) {
		return record.Bye, err
	}
	stored, err := m.store.get(ctx, m.key())
	if err != nil {
		return record.Bye, err
	}
	if stored.value == nil {
		return record.Bye, errUnregistered
	}
	found, err := subjects.DecodeCohort[subjects.CohortMember](stored.value)
	switch {
	case err == nil && found.Conn == record.Conn:
	case stored.revision < expected: // of a connection before this one: the store has lost ours
		return record.Bye, errUnregistered
	default:
		return record.Bye, ErrReplaced
	}
	m.heard(stored.revision) // a heartbeat of ours whose acknowledgement was lost
	wake(m.beatNow)
	return "", nil
}

func (m *Member) key() string { return subjects.KeyCohortMember(m.cfg.Group, m.cfg.ID) }

func (m *Member) record() (record subjects.CohortMember, expected uint64) {
	load := m.cfg.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	return subjects.CohortMember{
		Conn: m.conn, Weight: m.cfg.Weight, Load: load, IdleMS: time.Since(m.progress).Milliseconds(),
		Bye: m.bye, Released: maps.Clone(m.released), Info: m.cfg.Info,
	}, m.revision
}

// lastRevision is that of the own record, as far as is known.
func (m *Member) lastRevision() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

func (m *Member) heard(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = revision
}

// again registers a member whose record was ended. What it had is somebody else's by now, or
// will be.
func (m *Member) again(ctx context.Context) error {
	m.metrics.unregistered.Inc()
	m.log.Warn("unregistered: the group has given this member up; registering again")
	m.dropAll()
	if !retry.Pause(ctx, rand.N(m.timing.Heartbeat/3)) {
		return ctx.Err()
	}
	return m.register(ctx)
}

// register writes the record of a new connection. An older one that is there is replaced when
// the member joins; later it is a newer one, which replaces this.
func (m *Member) register(ctx context.Context) error {
	m.mu.Lock()
	before := m.conn
	m.conn = newConn()
	clear(m.released)
	m.mu.Unlock()
	for {
		stored, err := m.store.get(ctx, m.key())
		if err != nil {
			return err
		}
		if stored.value != nil && before != "" && stored.revision >= m.lastRevision() {
			if found, err := subjects.DecodeCohort[subjects.CohortMember](stored.value); err != nil || found.Conn != before {
				return ErrReplaced
			}
		}
		record, _ := m.record()
		revision, err := m.store.put(ctx, m.key(), record, stored.revision, recordTTL(m.timing))
		switch {
		case err == nil:
			m.heard(revision)
			m.log.Info("registered", "conn", record.Conn)
			return nil
		case !errors.Is(err, errConflict):
			return fmt.Errorf("cohort: registering: %w", err)
		}
		if !retry.Pause(ctx, retry.Backoff(0, firstPause, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}
