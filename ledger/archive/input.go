package archive

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// An input reads the rows of a file column by column, many times as fast as the library
// reads rows.
type input struct {
	file   *os.File
	groups []parquet.RowGroup
	left   int64 // rows of the group that is being read
	cols   []*column
	chunk  [perChunk]row
	buffer columns
}

// columns are the values of a chunk.
type columns struct {
	numbers [perChunk]int64
	texts   [perChunk]string
	flags   [perChunk]bool
}

// read opens a file, which must have the size that the manifest says.
func (p place) read(f filed) (*input, error) {
	opened, err := os.Open(p.path(f.Name))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	in, err := newInput(opened, f.Bytes)
	if err != nil {
		return nil, errors.Join(damaged(f.Name, err), opened.Close())
	}
	return in, nil
}

func damaged(name string, err error) error { return fmt.Errorf("%w: %s: %w", ErrDamaged, name, err) }

func newInput(f *os.File, size int64) (*input, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != size {
		return nil, fmt.Errorf("%d bytes instead of %d", info.Size(), size)
	}
	opened, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return nil, err
	}
	if got, want := opened.Schema().String(), parquet.SchemaOf(row{}).String(); got != want {
		return nil, fmt.Errorf("columns of another version: %s", got)
	}
	return &input{file: f, groups: opened.RowGroups()}, nil
}

func (in *input) close() error {
	return errors.Join(in.leave(), in.file.Close())
}

func (in *input) leave() (err error) {
	for _, c := range in.cols {
		err = errors.Join(err, c.close())
	}
	in.cols = nil
	return err
}

// next yields some rows, which are valid until it is called again; io.EOF behind the last.
func (in *input) next() ([]row, error) {
	for in.left == 0 {
		if err := in.leave(); err != nil {
			return nil, err
		}
		if len(in.groups) == 0 {
			return nil, io.EOF
		}
		group := in.groups[0]
		in.groups, in.left = in.groups[1:], group.NumRows()
		for _, chunk := range group.ColumnChunks() {
			in.cols = append(in.cols, &column{pages: chunk.Pages()})
		}
	}
	rows := in.chunk[:min(in.left, perChunk)]
	in.left -= int64(len(rows))
	return rows, in.fill(rows)
}

// fill reads the columns in the order in which a row has them.
func (in *input) fill(rows []row) error {
	b, next := &in.buffer, 0
	var failed error
	column := func() *column {
		next++
		return in.cols[next-1]
	}
	numbers := func(set func(*row, int64)) {
		if err := column().numbers(b.numbers[:len(rows)]); err != nil {
			failed = err
			return
		}
		for i := range rows {
			set(&rows[i], b.numbers[i])
		}
	}
	texts := func(set func(*row, string)) {
		if err := column().texts(b.texts[:len(rows)]); err != nil {
			failed = err
			return
		}
		for i := range rows {
			set(&rows[i], b.texts[i])
		}
	}
	flags := func(set func(*row, bool)) {
		if err := column().flags(b.flags[:len(rows)]); err != nil {
			failed = err
			return
		}
		for i := range rows {
			set(&rows[i], b.flags[i])
		}
	}
	numbers(func(r *row, v int64) { r.At = v })
	numbers(func(r *row, v int64) { r.StoredAt = v })
	texts(func(r *row, v string) { r.User = v })
	texts(func(r *row, v string) { r.Device = v })
	texts(func(r *row, v string) { r.Session = v })
	numbers(func(r *row, v int64) { r.Epoch = v })
	numbers(func(r *row, v int64) { r.Sequence = v })
	texts(func(r *row, v string) { r.Kind = v })
	texts(func(r *row, v string) { r.Activity = v })
	flags(func(r *row, v bool) { r.Stated = v })
	flags(func(r *row, v bool) { r.Foreground = v })
	flags(func(r *row, v bool) { r.Active = v })
	flags(func(r *row, v bool) { r.Adopted = v })
	texts(func(r *row, v string) { r.Type = v })
	texts(func(r *row, v string) { r.Version = v })
	texts(func(r *row, v string) { r.Channel = v })
	texts(func(r *row, v string) { r.Region = v })
	numbers(func(r *row, v int64) { r.Shard = v })
	texts(func(r *row, v string) { r.Stream = v })
	numbers(func(r *row, v int64) { r.Position = v })
	return failed
}
