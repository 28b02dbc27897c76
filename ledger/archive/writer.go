package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config is what archiving needs.
type Config struct {
	Dir string // of the archive; made if missing
	// Device makes a pseudonym of a device id; required.
	Device func(id string) string
	// Forgotten says whether a user was forgotten; nil for nobody. Answers are kept, until
	// somebody is forgotten in the archive too: so do that last.
	Forgotten func(ctx context.Context, user string) (bool, error)
	// Horizon is how long connections that have ended are remembered, so that heartbeats
	// that come late are still theirs. It should be above every lateness that the events
	// may ever be read under. The default is six hours.
	Horizon time.Duration
	// Buffer is how many events of a shard memory holds, about 100 bytes each; more make
	// fewer and larger files. The default is half a million.
	Buffer int
	// Every is how often what was read becomes part of the archive: how much is read
	// again after a crash, and how long the newest events are not to be seen. Every time costs
	// one snapshot of all open connections. The default is five minutes.
	Every time.Duration

	disk disk // a test's
}

const (
	defaultHorizon = 6 * time.Hour
	defaultBuffer  = 1 << 19
	defaultEvery   = 5 * time.Minute

	maxRefused = 8 << 20 // bytes of what could not be read, in memory
	maxUsers   = 1 << 20 // answers that are kept
)

// ErrConfig is a configuration that makes no sense; the wrapping says why.
var ErrConfig = errors.New("archive: invalid configuration")

func (c Config) withDefaults() (Config, error) {
	if c.Horizon == 0 {
		c.Horizon = defaultHorizon
	}
	if c.Buffer == 0 {
		c.Buffer = defaultBuffer
	}
	if c.Every == 0 {
		c.Every = defaultEvery
	}
	if c.Forgotten == nil {
		c.Forgotten = func(context.Context, string) (bool, error) { return false, nil }
	}
	switch {
	case c.Dir == "" || c.Device == nil:
		return c, fmt.Errorf("%w: no directory, or nobody makes pseudonyms", ErrConfig)
	case c.Horizon < 0 || c.Buffer < 0 || c.Every < 0:
		return c, fmt.Errorf("%w: negative horizon, buffer or time between commits", ErrConfig)
	}
	return c, nil
}

// A Writer archives one shard. It is not safe for concurrent use.
type Writer struct {
	place
	cfg     Config
	shard   int
	names   subjects.Names
	decoder *raw.Decoder
	sink    *sink
	reader  reader // as of the last message
	forgets uint64 // of the manifest whose answers are in users
	users   map[string]bool
	err     error // for which nothing that was read since the last commit may count
	pending []filed
	done    Committed
}

// Committed is how much a writer has made part of the archive.
type Committed struct{ Events, Rejected int64 }

// Committed is since the writer was made.
func (w *Writer) Committed() Committed { return w.done }

// NewWriter goes on where the archive is, or makes one. There must be one writer of a
// shard at a time: [Archiver.Run] sees to that.
func NewWriter(ctx context.Context, names subjects.Names, shard int, cfg Config) (*Writer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Writer{place: place{cfg.disk, cfg.Dir}, cfg: cfg, shard: shard, names: names}
	if err := w.make(ctx, names.Prefix(), names.Shards()); err != nil {
		return nil, err
	}
	return w, w.resume(ctx)
}

// resume forgets what does not count yet and goes on from what does.
func (w *Writer) resume(ctx context.Context) error {
	m, err := w.load()
	if err != nil {
		return err
	}
	w.discard(w.pending...)
	w.pending, w.err = nil, nil
	w.reader, w.forgets, w.users = m.Readers[w.shard], m.Forgets, make(map[string]bool)
	w.sink = &sink{batch: newBatch(), shard: w.shard, device: w.cfg.Device, forgotten: func(user string) bool { return w.forgotten(ctx, user) }}
	w.decoder = raw.Keep(w.names, w.cfg.Horizon, w.sink)
	w.sink.origin = w.decoder.Origin
	if w.reader.State == "" {
		return nil
	}
	state, err := os.ReadFile(w.path(w.reader.State))
	if err == nil {
		err = w.decoder.Restore(state)
	}
	if err != nil {
		return damaged(w.reader.State, err)
	}
	return nil
}

func (w *Writer) forgotten(ctx context.Context, user string) bool {
	is, ok := w.users[user]
	if !ok {
		var err error
		if is, err = w.cfg.Forgotten(ctx, user); err != nil {
			w.err = errors.Join(w.err, fmt.Errorf("archive: whether a user was forgotten: %w", err))
		}
		if len(w.users) == maxUsers {
			clear(w.users)
		}
		w.users[user] = is
	}
	return is
}

// Position is how far the streams were read.
func (w *Writer) Position() raw.Position { return w.reader.Position }

// Add takes a message. Those of one stream must come in their order, from behind the
// position on.
func (w *Writer) Add(m raw.Message) error {
	w.sink.message = m
	w.decoder.Add(m)
	if marks := w.reader.Marks; len(marks) == 0 || m.Time.UnixMilli()-marks[len(marks)-1].Time > w.cfg.Every.Milliseconds() {
		w.mark()
	}
	if m.Beats {
		w.reader.Beats, w.reader.BeatsTime = m.Seq, m.Time
	} else {
		w.reader.Log, w.reader.LogTime = m.Seq, m.Time
	}
	if w.err == nil && (len(w.sink.entries) >= w.cfg.Buffer || w.sink.size >= maxRefused) {
		w.err = w.spill()
	}
	return w.err
}

// spill writes what is in memory to files that do not count yet.
func (w *Writer) spill() error {
	ordered := w.sink.ordered()
	for _, x := range w.sink.eras() {
		if err := w.spillEvents(x, ordered); err != nil {
			return err
		}
	}
	w.sink.empty()
	return w.spillRefusals()
}

// spillEvents writes those of an era to a file.
func (w *Writer) spillEvents(x era, ordered []entry) error {
	out, err := newOutput[row](w.place, eventsTable, x.at, x.stored, shardName(w.shard))
	if err != nil {
		return err
	}
	chunk := make([]row, 0, perChunk)
	for i := range ordered {
		if e := &ordered[i]; w.sink.era(e) == x {
			chunk = append(chunk, w.sink.row(w.shard, e))
		}
		if len(chunk) == perChunk || i == len(ordered)-1 {
			if err = out.write(chunk); err != nil {
				break
			}
			chunk = chunk[:0]
		}
	}
	return w.spilled(err, out.end)
}

// spilled adds a file to those that wait.
func (w *Writer) spilled(err error, end func() (filed, error)) error {
	f, endErr := end()
	w.pending = append(w.pending, f) // also one that failed, so that it is discarded
	return errors.Join(err, endErr)
}

func (w *Writer) spillRefusals() error {
	rows := w.sink.refusals
	w.sink.refusals, w.sink.size = nil, 0
	slices.SortStableFunc(rows, func(a, b refusal) int { return int(hourOf(a.StoredAt)/hour - hourOf(b.StoredAt)/hour) })
	for len(rows) > 0 {
		stored, n := hourOf(rows[0].StoredAt), 0
		for n < len(rows) && hourOf(rows[n].StoredAt) == stored {
			n++
		}
		out, err := newOutput[refusal](w.place, rejectedTable, stored, stored, shardName(w.shard))
		if err != nil {
			return err
		}
		if err := w.spilled(out.write(rows[:n]), out.end); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// Commit makes what was added part of the archive. The watermark is how far the streams
// were read, in ms of store time: see [raw.Step].
//
// If a user was forgotten meanwhile, nothing is committed ([ErrForgotten]), and the writer
// is where it was after the last commit: see [Writer.Position].
func (w *Writer) Commit(ctx context.Context, watermark int64) error {
	if w.err == nil {
		w.err = w.spill()
	}
	if w.err != nil {
		return w.err
	}
	state, err := w.decoder.Snapshot()
	if err != nil {
		return wrap("state", err)
	}
	next := w.reader
	next.State, next.Through = path.Join(stateDir, unique(time.Now().UnixMilli(), shardName(w.shard))), max(next.Through, watermark)
	if err := w.replace(w.path(next.State), state); err != nil {
		return wrap("state", err)
	}
	err = w.update(ctx, func(m *manifest) error {
		if m.Forgets != w.forgets {
			return ErrForgotten
		}
		if err := w.admit(w.pending); err != nil {
			return err
		}
		m.set(w.shard, next)
		m.Files = append(m.Files, w.pending...)
		return nil
	})
	switch {
	case errors.Is(err, ErrForgotten):
		return errors.Join(err, w.remove(w.path(next.State)), w.resume(ctx))
	case err != nil && ctx.Err() == nil: // files may have got their names already
		w.err = err
		return err
	case err != nil:
		return err
	}
	for _, f := range w.pending {
		if f.Table == eventsTable {
			w.done.Events += f.Rows
		} else {
			w.done.Rejected += f.Rows
		}
	}
	w.reader, w.pending = next, nil
	return nil
}

// now is the newest store time that was read, in ms.
func (w *Writer) now() int64 {
	if w.reader.LogTime.After(w.reader.BeatsTime) {
		return w.reader.LogTime.UnixMilli()
	}
	return w.reader.BeatsTime.UnixMilli()
}

// mark remembers what was read before now.
func (w *Writer) mark() {
	if r := &w.reader; r.Log > 0 || r.Beats > 0 {
		r.Marks = thinned(append(slices.Clip(r.Marks), mark{r.Log, r.Beats, w.now()}))
	}
}

// due is the newest mark that is older than the retention.
func (w *Writer) due(retention time.Duration) (due mark, ok bool) {
	for _, k := range w.reader.Marks {
		if k.Time <= w.now()-retention.Milliseconds() {
			due, ok = k, true
		}
	}
	return due, ok
}

// purged forgets the marks up to one.
func (w *Writer) purged(upto mark) {
	w.reader.Marks = slices.DeleteFunc(slices.Clone(w.reader.Marks), func(k mark) bool { return k.Time <= upto.Time })
}
