package importer

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/ledger"
)

// A record is an event with the line it came from.
type record struct {
	ledger.Event
	line int64
}

// order has the events of a user's device together, in order of time.
func order(a, b record) int {
	if c := strings.Compare(a.User, b.User); c != 0 {
		return c
	}
	if c := strings.Compare(a.Device, b.Device); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.line, b.line))
}

// A sorter puts any number of records in order with the memory of a chunk.
type sorter struct {
	dir   string
	chunk int
	held  []record
	runs  []*os.File
}

func (s *sorter) add(r record) error {
	s.held = append(s.held, r)
	if len(s.held) < s.chunk {
		return nil
	}
	return s.spill()
}

// spill writes the chunk to a file that has lost its name, so that nothing is left
// behind however the process ends.
func (s *sorter) spill() error {
	slices.SortFunc(s.held, order)
	file, err := os.CreateTemp(s.dir, "rollcall-import-")
	if err != nil {
		return fmt.Errorf("importer: sort: %w", err)
	}
	s.runs = append(s.runs, file)
	if runtime.GOOS != "windows" {
		os.Remove(file.Name())
	}
	w := bufio.NewWriterSize(file, 1<<16)
	var b []byte
	for _, r := range s.held {
		b = r.append(b[:0])
		w.Write(binary.AppendUvarint(nil, uint64(len(b))))
		w.Write(b)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("importer: sort: %w", err)
	}
	clear(s.held)
	s.held = s.held[:0]
	_, err = file.Seek(0, io.SeekStart)
	return err
}

func (s *sorter) close() {
	for _, file := range s.runs {
		file.Close()
		if runtime.GOOS == "windows" {
			os.Remove(file.Name())
		}
	}
}

func (r record) append(b []byte) []byte {
	for _, text := range []string{r.User, r.Device, r.Client.Type, r.Client.Version, r.Client.Channel, r.Client.Region} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = binary.AppendVarint(b, r.At)
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(r.Kind))
	return binary.AppendVarint(b, r.line)
}

var errRun = errors.New("importer: sort: temporary file is damaged")

// decode reads what append wrote. Texts that repeat share memory.
func (r *record) decode(b []byte, names map[string]string) error {
	for _, text := range []*string{&r.User, &r.Device, &r.Client.Type, &r.Client.Version, &r.Client.Channel, &r.Client.Region} {
		n, k := binary.Uvarint(b)
		if k <= 0 || uint64(len(b)-k) < n {
			return errRun
		}
		raw := b[k : k+int(n)]
		known, ok := names[string(raw)]
		if !ok {
			known = string(raw)
			if len(names) > 1<<12 {
				clear(names)
			}
			names[known] = known
		}
		*text, b = known, b[k+int(n):]
	}
	var numbers [4]int64
	for i := range numbers {
		var k int
		if i == 1 || i == 2 {
			var u uint64
			u, k = binary.Uvarint(b)
			numbers[i] = int64(u)
		} else {
			numbers[i], k = binary.Varint(b)
		}
		if k <= 0 {
			return errRun
		}
		b = b[k:]
	}
	r.At, r.Sequence, r.Kind, r.line = numbers[0], uint64(numbers[1]), ledger.Kind(numbers[2]), numbers[3]
	return nil
}

// sorted yields all records in order, once.
func (s *sorter) sorted() iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		slices.SortFunc(s.held, order)
		sources := merge{&source{list: s.held}}
		for _, file := range s.runs {
			sources = append(sources, &source{from: bufio.NewReaderSize(file, 1<<16), names: map[string]string{}})
		}
		kept := sources[:0]
		for _, src := range sources {
			switch err := src.next(); {
			case err == nil:
				kept = append(kept, src)
			case err != io.EOF:
				yield(record{}, err)
				return
			}
		}
		sources = kept
		heap.Init(&sources)
		for len(sources) > 0 {
			if !yield(sources[0].head, nil) {
				return
			}
			switch err := sources[0].next(); {
			case err == nil:
				heap.Fix(&sources, 0)
			case err == io.EOF:
				heap.Pop(&sources)
			default:
				yield(record{}, err)
				return
			}
		}
	}
}

// A source is a sorted run, in memory or in a file.
type source struct {
	head  record
	list  []record
	from  *bufio.Reader
	names map[string]string
	buf   []byte
}

func (s *source) next() error {
	if s.from == nil {
		if len(s.list) == 0 {
			return io.EOF
		}
		s.head, s.list = s.list[0], s.list[1:]
		return nil
	}
	n, err := binary.ReadUvarint(s.from)
	if err != nil {
		return err
	}
	s.buf = slices.Grow(s.buf[:0], int(n))[:n]
	if _, err := io.ReadFull(s.from, s.buf); err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	return s.head.decode(s.buf, s.names)
}

// merge is a heap of runs by their heads.
type merge []*source

func (m merge) Len() int           { return len(m) }
func (m merge) Less(a, b int) bool { return order(m[a].head, m[b].head) < 0 }
func (m merge) Swap(a, b int)      { m[a], m[b] = m[b], m[a] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*source)) }
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
