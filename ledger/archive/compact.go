package archive

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"slices"
)

const (
	fanIn   = 16        // files that are merged at once: each takes some pages in memory
	largest = 256 << 20 // bytes: larger ones are good as they are
)

// compact merges files of an hour in which nothing is stored any more, fanIn at a time,
// and says how many it merged: 0 when there is nothing to do.
func (p place) compact(ctx context.Context) (int, error) {
	m, err := p.load()
	if err != nil {
		return 0, err
	}
	files := mergeable(m)
	if len(files) == 0 {
		return 0, nil
	}
	merged, err := p.merge(ctx, files)
	if err != nil {
		p.discard(merged)
		return 0, err
	}
	counted := false
	err = p.update(ctx, func(m *manifest) error {
		if counted = m.drop(files...); !counted {
			return errOvertaken
		}
		m.Files = append(m.Files, merged)
		return p.admit([]filed{merged})
	})
	if errors.Is(err, errOvertaken) {
		p.discard(merged)
		return len(files), nil
	}
	return len(files), err
}

// errOvertaken says that somebody else has replaced files that were merged.
var errOvertaken = errors.New("archive: overtaken")

// mergeable are files that should be one, the smallest first so that few are written
// again and again.
func mergeable(m *manifest) []filed {
	through := m.through()
	var group []filed
	for _, f := range append(append(m.table(eventsTable), m.table(rejectedTable)...), filed{}) {
		if len(group) > 0 && (f.Table != group[0].Table || f.Stored != group[0].Stored || f.Hour != group[0].Hour) {
			if len(group) > 1 {
				slices.SortStableFunc(group, func(a, b filed) int { return cmp.Compare(a.Bytes, b.Bytes) })
				return group[:min(len(group), fanIn)]
			}
			group = nil
		}
		if f.Rows > 0 && f.Bytes < largest && f.Stored+hour <= through {
			group = append(group, f)
		}
	}
	return nil
}

// merge writes the rows of files of a table and the same hours into one.
func (p place) merge(ctx context.Context, files []filed) (filed, error) {
	if files[0].Table == rejectedTable {
		return mergeBy(p, files, p.mergeRefusals)
	}
	return mergeBy(p, files, func(out *output[row], files []filed) error { return p.mergeInto(ctx, out, files) })
}

func mergeBy[T any](p place, files []filed, rows func(*output[T], []filed) error) (filed, error) {
	out, err := newOutput[T](p, files[0].Table, files[0].Hour, files[0].Stored, "merged")
	if err != nil {
		return filed{}, err
	}
	err = rows(out, files)
	f, endErr := out.end()
	return f, errors.Join(err, endErr)
}

func (p place) mergeRefusals(out *output[refusal], files []filed) error {
	for _, f := range files {
		rows, err := p.refusals(f)
		if err == nil {
			err = out.write(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeInto merges sorted files.
func (p place) mergeInto(ctx context.Context, out *output[row], files []filed) (err error) {
	var heads heads
	defer func() {
		for _, h := range heads {
			err = errors.Join(err, h.close())
		}
	}()
	var rows int64
	for _, f := range files {
		in, err := p.read(f)
		if err != nil {
			return err
		}
		h := &head{input: in, name: f.Name}
		if err := h.advance(); err == io.EOF {
			in.close()
			continue
		} else if err != nil {
			return errors.Join(err, in.close())
		}
		heads, rows = append(heads, h), rows+f.Rows
	}
	heap.Init(&heads)
	chunk := make([]row, 0, perChunk)
	for len(heads) > 0 {
		h := heads[0]
		chunk = append(chunk, h.rows[0])
		switch err := h.advance(); {
		case err == io.EOF:
			heap.Pop(&heads)
			if err := h.close(); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			heap.Fix(&heads, 0)
		}
		if len(chunk) == perChunk || len(heads) == 0 {
			if err := errors.Join(ctx.Err(), out.write(chunk)); err != nil {
				return err
			}
			chunk = chunk[:0]
		}
	}
	if out.Rows != rows {
		return damaged(files[0].Name, errShort)
	}
	return nil
}

var errShort = errors.New("the files that were merged have other numbers of rows than the manifest says")

// A head is the rest of a file; it has a row unless advance has said otherwise.
type head struct {
	*input
	name string
	rows []row
}

func (h *head) advance() (err error) {
	if len(h.rows) > 1 {
		h.rows = h.rows[1:]
		return nil
	}
	if h.rows, err = h.next(); err != nil && err != io.EOF {
		return damaged(h.name, err)
	}
	return err
}

// heads are a heap, the first row on top.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].rows[0].compare(&h[j].rows[0]) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*head)) }
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
