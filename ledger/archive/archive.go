package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/internal/filelock"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/subjects"
)

// An Archive is one that is there. It holds nothing open between calls, each of which
// sees the archive as it is then. It is safe for concurrent use, also while it is written.
type Archive struct {
	place
	names subjects.Names
}

// Open finds an archive; [ErrNone] if there is none.
func Open(dir string) (*Archive, error) {
	a := &Archive{place: place{dir: dir}}
	m, err := a.load()
	if err != nil {
		return nil, err
	}
	if a.names, err = subjects.New(m.Prefix, m.Shards); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	return a, nil
}

// Names are those of the fabric whose events these are.
func (a *Archive) Names() subjects.Names { return a.names }

// Source is what the quarantine calls the message that an event was read from, the same
// as when it is read from the stream.
func (a *Archive) Source(o Origin) string {
	stream := a.names.LogStream(o.Shard)
	if o.Beats {
		stream = a.names.BeatsStream(o.Shard)
	}
	return fmt.Sprintf("%s %d", stream, o.Seq)
}

// An Hour is what there is of the events of an hour that were stored in an hour.
type Hour struct {
	At, Stored time.Time // when the hours start
	Events     int64
	Files      int
	Bytes      int64
}

// Hours lists what there is, in the order in which [Archive.Read] yields it.
func (a *Archive) Hours() ([]Hour, error) {
	m, err := a.load()
	if err != nil {
		return nil, err
	}
	var hours []Hour
	for _, f := range m.table(eventsTable) {
		at, stored := time.UnixMilli(f.Hour).UTC(), time.UnixMilli(f.Stored).UTC()
		if n := len(hours); n == 0 || hours[n-1].At != at || hours[n-1].Stored != stored {
			hours = append(hours, Hour{At: at, Stored: stored})
		}
		h := &hours[len(hours)-1]
		h.Events, h.Files, h.Bytes = h.Events+f.Rows, h.Files+1, h.Bytes+f.Bytes
	}
	return hours, nil
}

// Through is until when, in ms of store time, every shard is in the archive; 0 if one is
// not at all.
func (a *Archive) Through() (int64, error) {
	m, err := a.load()
	if err != nil {
		return 0, err
	}
	return m.through(), nil
}

// Read yields the events that happened within bounds, in the order of the hours in which
// they were stored, and in no order within such an hour: see [Watermark]. Memory is that
// of some pages.
func (a *Archive) Read(ctx context.Context, bounds interval.Interval, yield func(Event) error) error {
	return a.each(ctx, eventsTable, bounds, func(f filed) error {
		return a.readEvents(ctx, f, bounds, yield)
	})
}

// each calls f for the files that may have rows within bounds.
func (a *Archive) each(ctx context.Context, table string, bounds interval.Interval, f func(filed) error) error {
	lock, err := a.lock(ctx, readersLock, filelock.Shared)
	if err != nil {
		return wrap("read", err)
	}
	defer lock.Release()
	m, err := a.load()
	if err != nil {
		return err
	}
	for _, file := range m.table(table) {
		if file.Hour+hour <= bounds.From || file.Hour >= bounds.To {
			continue
		}
		if err := f(file); err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) readEvents(ctx context.Context, f filed, bounds interval.Interval, yield func(Event) error) error {
	return a.rows(ctx, f, func(rows []row) error {
		for i := range rows {
			if at := rows[i].At; at < bounds.From || at >= bounds.To {
				continue
			}
			if err := yield(rows[i].event()); err != nil {
				return err
			}
		}
		return nil
	})
}

// rows reads a file, which must have as many as the manifest says.
func (p place) rows(ctx context.Context, f filed, take func([]row) error) error {
	in, err := p.read(f)
	if err != nil {
		return err
	}
	defer in.close()
	for n := int64(0); ; {
		rows, err := in.next()
		if err == io.EOF && n == f.Rows {
			return nil
		}
		if err == io.EOF {
			err = fmt.Errorf("%d rows instead of %d", n, f.Rows)
		}
		if err != nil {
			return damaged(f.Name, err)
		}
		n += int64(len(rows))
		if err := errors.Join(ctx.Err(), take(rows)); err != nil {
			return err
		}
	}
}

// Rejected yields what could not be read and was stored within bounds, as those have it
// who read the streams.
func (a *Archive) Rejected(ctx context.Context, bounds interval.Interval, yield func(ledger.Rejected) error) error {
	return a.each(ctx, rejectedTable, bounds, func(f filed) error {
		rows, err := a.refusals(f)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.StoredAt < bounds.From || r.StoredAt >= bounds.To {
				continue
			}
			if err := errors.Join(ctx.Err(), yield(r.rejected())); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *refusal) rejected() ledger.Rejected {
	return ledger.Rejected{Rule: r.Rule, Reason: r.Reason, At: time.UnixMilli(r.At).UTC(), Source: r.Source, Raw: r.Raw}
}

func (p place) refusals(f filed) ([]refusal, error) {
	data, err := os.ReadFile(p.path(f.Name))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	rows, err := parquet.Read[refusal](bytes.NewReader(data), int64(len(data)))
	if err == nil && int64(len(rows)) != f.Rows {
		err = fmt.Errorf("%d rows instead of %d", len(rows), f.Rows)
	}
	if err != nil {
		return nil, damaged(f.Name, err)
	}
	return rows, nil
}
