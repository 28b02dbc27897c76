package importer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Config is what an import needs.
type Config struct {
	// Apply stores a batch; see [store.Store].
	Apply func(ctx context.Context, b store.Batch) (store.Applied, error)
	// Definition is what the sessions are built under; the store must know it.
	Definition ledger.Definition
	// Device makes a pseudonym of a device id.
	Device func(id string) string
	// Name is what the quarantine calls the source, such as the name of the file.
	Name string
	// At is the time of the import, for lines that have none.
	At time.Time
	// Dir is where temporary files go; empty for the system's place.
	Dir string
	// Progress, if not nil, is told now and then how far it is.
	Progress func(Progress)
	// Chunk is how many events memory holds: 100 to 200 bytes each. A larger one makes
	// fewer temporary files. The default is 131072.
	Chunk int
}

// Progress is how far an import is.
type Progress struct {
	Lines int64 // read
	Bytes int64 // read
	Built int64 // events that became sessions, which starts when all lines were read
}

// Summary is what an import did.
type Summary struct {
	Lines    int64 // without header and empty ones
	Taken    int   // sessions that they came to, whether the store had them or not
	Sessions int   // new or corrected in the store
	Rejected int   // new in quarantine
	// Known are sessions and refusals that the store had already.
	Known     int
	Forgotten int // sessions and refusals of users who were forgotten
}

const (
	defaultChunk = 1 << 17
	maxLine      = 1 << 16
	often        = 1 << 15 // lines or events between two words of progress
	batchSize    = 4000    // sessions and refusals in a transaction
)

// Run reads a history to its end and stores what it comes to. A line that cannot be
// read is no error.
func Run(ctx context.Context, c Config, from io.Reader) (Summary, error) {
	if err := definition.Validate(c.Definition); err != nil {
		return Summary{}, err
	}
	if c.Chunk <= 0 {
		c.Chunk = defaultChunk
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	r := &run{Config: c, sorter: sorter{dir: c.Dir, chunk: c.Chunk}}
	defer r.sorter.close()
	if err := r.read(ctx, from); err != nil {
		return r.summary, err
	}
	if err := r.build(ctx); err != nil {
		return r.summary, err
	}
	return r.summary, r.store(ctx)
}

// A run is an import under way.
type run struct {
	Config
	sorter   sorter
	format   Format
	progress Progress
	summary  Summary
	batch    store.Batch
}

// read sorts the lines that can be read and refuses the others.
func (r *run) read(ctx context.Context, from io.Reader) error {
	in := bufio.NewReaderSize(from, maxLine)
	first := true
	for {
		line, size, err := readLine(in)
		if err == io.EOF {
			r.Progress(r.progress)
			return nil
		}
		if err != nil {
			return fmt.Errorf("importer: read: %w", err)
		}
		r.progress.Lines++
		r.progress.Bytes += int64(size)
		if r.progress.Lines%often == 0 {
			r.Progress(r.progress)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if first {
			first = false
			header, err := r.format.Header(line)
			if err != nil {
				return fmt.Errorf("importer: %w", err)
			}
			if header {
				continue
			}
		}
		if err := r.take(ctx, line, size); err != nil {
			return err
		}
	}
}

func (r *run) take(ctx context.Context, line string, size int) error {
	r.summary.Lines++
	e, err := r.format.Parse(line)
	if err == nil && size > maxLine {
		err = fmt.Errorf("line longer than %d bytes", maxLine)
	}
	if err == nil {
		return r.sorter.add(record{Event: e, line: r.progress.Lines})
	}
	refused := ledger.Rejected{
		Rule: ledger.RuleInput, Reason: err.Error(), At: r.At, Raw: line, Source: fmt.Sprintf("%s:%d", r.Name, r.progress.Lines),
	}
	if e.User != "" {
		// Known by name, so that it can be forgotten.
		refused.Event = &ledger.Event{User: e.User}
	}
	r.batch.Rejected = append(r.batch.Rejected, refused)
	return r.storeFull(ctx)
}

// readLine returns a line without its end, and its size in bytes; of one that is too long, the
// beginning.
func readLine(in *bufio.Reader) (line string, size int, err error) {
	b, err := in.ReadSlice('\n')
	size = len(b)
	line = string(b)
	for err == bufio.ErrBufferFull {
		b, err = in.ReadSlice('\n')
		size += len(b)
	}
	if err == io.EOF && size > 0 {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), size, err
}

// build makes sessions of the sorted events.
func (r *run) build(ctx context.Context) error {
	s := &sessions{
		definition: r.Definition, name: r.Name, device: r.Device,
		put:    func(x ledger.Session) { r.batch.Sessions = append(r.batch.Sessions, x) },
		reject: func(x ledger.Rejected) { r.batch.Rejected = append(r.batch.Rejected, x) },
	}
	for event, err := range r.sorter.sorted() {
		if err != nil {
			return err
		}
		if err := s.add(event); err != nil {
			return err
		}
		if r.progress.Built++; r.progress.Built%often == 0 {
			r.Progress(r.progress)
		}
		if err := r.storeFull(ctx); err != nil {
			return err
		}
	}
	r.Progress(r.progress)
	return s.flush()
}

func (r *run) storeFull(ctx context.Context) error {
	if len(r.batch.Sessions)+len(r.batch.Rejected) < batchSize {
		return nil
	}
	return r.store(ctx)
}

func (r *run) store(ctx context.Context) error {
	r.batch.Definition, r.batch.Refresh = r.Definition.Version, true
	done, err := r.Apply(ctx, r.batch)
	if err != nil {
		return fmt.Errorf("importer: %w", err)
	}
	r.summary.Taken += len(r.batch.Sessions)
	r.summary.Sessions += done.Sessions
	r.summary.Rejected += done.Rejected
	r.summary.Forgotten += done.Forgotten
	r.summary.Known += len(r.batch.Sessions) + len(r.batch.Rejected) - done.Sessions - done.Rejected - done.Forgotten
	r.batch = store.Batch{}
	return nil
}
