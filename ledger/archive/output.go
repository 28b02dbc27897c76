package archive

import (
	"errors"
	"path"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const (
	perGroup = 1 << 18 // rows: what a writer holds, and a tool reads in parallel
	perChunk = 1 << 10 // rows that go through the hands at once
)

// An output is a file that is being written, under a name that does not count yet.
type output[T any] struct {
	place
	filed
	file *file
	rows *parquet.GenericWriter[T]
}

// newOutput begins a file of rows of an hour that were stored in an hour.
func newOutput[T any](p place, table string, at, stored int64, shard string) (*output[T], error) {
	name := path.Join(partition(table, at), unique(stored, shard)+".parquet")
	f, err := p.create(p.path(name) + partSuffix)
	if err != nil {
		return nil, wrap("create", err)
	}
	return &output[T]{
		place: p, filed: filed{Table: table, Name: name, Hour: at, Stored: stored}, file: f,
		rows: parquet.NewGenericWriter[T](f, layout[table]...),
	}, nil
}

// layout is how a table is written.
var layout = map[string][]parquet.WriterOption{
	eventsTable: append(bare("device", "kind", "activity", "client_type", "client_version", "channel", "region", "stream"),
		compressed, parquet.MaxRowsPerRowGroup(perGroup),
		parquet.SortingWriterConfig(parquet.SortingColumns(
			parquet.Ascending("user"), parquet.Ascending("session"), parquet.Ascending("epoch"), parquet.Ascending("at")))),
	rejectedTable: {compressed},
}

var compressed = parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest})

// bare columns say no bounds, which nobody would ask for and which take a sixth of the
// time.
func bare(columns ...string) (options []parquet.WriterOption) {
	for _, name := range columns {
		options = append(options, parquet.SkipPageBounds(name))
	}
	return options
}

func (o *output[T]) write(rows []T) error {
	n, err := o.rows.Write(rows)
	o.Rows += int64(n)
	return wrap("write", err)
}

// end leaves the file on the disk.
func (o *output[T]) end() (filed, error) {
	err := o.rows.Close()
	if info, statErr := o.file.Stat(); statErr == nil {
		o.Bytes = info.Size()
	}
	return o.filed, wrap("write", errors.Join(err, o.file.close()))
}

// discard removes files that do not count yet; those that stay are removed at the next
// start.
func (p place) discard(files ...filed) {
	for _, f := range files {
		_ = p.remove(p.path(f.Name) + partSuffix)
	}
}

// admit gives files the names under which they will count.
func (p place) admit(files []filed) error {
	dirs := make(map[string]bool)
	for _, f := range files {
		if err := p.rename(p.path(f.Name)+partSuffix, p.path(f.Name)); err != nil {
			return wrap("rename", err)
		}
		dirs[path.Dir(f.Name)] = true
	}
	for dir := range dirs {
		if err := p.settle(p.path(dir)); err != nil {
			return wrap("sync", err)
		}
	}
	return nil
}

func shardName(shard int) string { return "s" + strconv.Itoa(shard) }
