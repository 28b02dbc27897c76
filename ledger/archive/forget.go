package archive

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/internal/filelock"
)

// atOnce is how many files are replaced with one manifest.
const atOnce = 64

// Forget cuts a user out of every file, and says how many events that were. Whoever
// archives reads again what it has in memory, and must hear from [Config.Forgotten] by
// then that the user was forgotten. The state of the decoder keeps the name as long as a
// connection of the user may still be told of, since it could not leave it out otherwise.
//
// Doing it again goes on where a process was killed.
func (a *Archive) Forget(ctx context.Context, user string) (events int64, err error) {
	if events, err = a.cutAll(ctx, user); err != nil {
		return events, err
	}
	return events, a.vanish(ctx)
}

// cutAll replaces the files that hold a user. Nobody may commit events meanwhile.
func (a *Archive) cutAll(ctx context.Context, user string) (events int64, err error) {
	lock, err := a.lock(ctx, manifestLock, filelock.Exclusive)
	if err != nil {
		return 0, wrap("forget", err)
	}
	defer lock.Release()
	var files []filed
	err = a.updateLocked(ctx, func(m *manifest) error {
		m.Forgets++
		files = append(m.table(eventsTable), m.table(rejectedTable)...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	var old, cut []filed
	for i, f := range files {
		left, changed, err := a.cut(ctx, f, user)
		if err != nil {
			a.discard(cut...)
			return events, err
		}
		if changed {
			old, cut = append(old, f), append(cut, left)
		}
		if len(old) < atOnce && i < len(files)-1 || len(old) == 0 {
			continue
		}
		if err := a.exchange(ctx, old, cut); err != nil {
			return events, err
		}
		for i := range old {
			if old[i].Table == eventsTable {
				events += old[i].Rows - cut[i].Rows
			}
		}
		old, cut = nil, nil
	}
	return events, nil
}

// exchange replaces files by what is left of them.
func (a *Archive) exchange(ctx context.Context, old, cut []filed) error {
	return a.updateLocked(ctx, func(m *manifest) error {
		m.drop(old...)
		var left []filed
		for _, f := range cut {
			if f.Rows > 0 {
				left = append(left, f)
			}
		}
		m.Files = append(m.Files, left...)
		return a.admit(left)
	})
}

// vanish waits for those who read files that do not count any more, and removes them.
func (a *Archive) vanish(ctx context.Context) error {
	readers, err := a.lock(ctx, readersLock, filelock.Exclusive)
	if err != nil {
		return wrap("waiting for those who read", err)
	}
	defer readers.Release()
	m, err := a.load()
	if err != nil {
		return err
	}
	return a.clean(m)
}

// cut writes what is left of a file without a user.
func (a *Archive) cut(ctx context.Context, f filed, user string) (left filed, changed bool, err error) {
	if f.Table == rejectedTable {
		return a.cutRefusals(f, user)
	}
	if holds, err := a.holds(f, user); err != nil || !holds {
		return f, false, err
	}
	out, err := newOutput[row](a.place, f.Table, f.Hour, f.Stored, "cut")
	if err != nil {
		return f, false, err
	}
	var chunk []row
	err = a.rows(ctx, f, func(rows []row) error {
		chunk = chunk[:0]
		for _, r := range rows {
			if r.User != user {
				chunk = append(chunk, r)
			}
		}
		return out.write(chunk)
	})
	return a.cutTo(out.end, err)
}

// cutTo ends a file; one that nothing is left for is removed.
func (a *Archive) cutTo(end func() (filed, error), err error) (filed, bool, error) {
	left, endErr := end()
	err = errors.Join(err, endErr)
	if err != nil || left.Rows == 0 {
		a.discard(left)
	}
	return left, true, err
}

// holds says whether a file has events of a user, by the dictionaries of its groups.
func (a *Archive) holds(f filed, user string) (bool, error) {
	in, err := a.read(f)
	if err != nil {
		return false, err
	}
	defer in.close()
	for _, group := range in.groups {
		found, err := groupHolds(group, user)
		if err != nil {
			return false, damaged(f.Name, err)
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

// userColumn is the place of the user in a row.
const userColumn = 2

func groupHolds(group parquet.RowGroup, user string) (found bool, err error) {
	c := &column{pages: group.ColumnChunks()[userColumn].Pages()}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.turn(); err != nil {
		return false, err
	}
	if c.page.Dictionary() == nil {
		return true, nil // no file of ours; to look at all of its rows is right as well
	}
	return slices.Contains(c.named, user), nil // every page of a group has this dictionary
}

// cutRefusals leaves out messages that hold the name as they would hold a field.
func (a *Archive) cutRefusals(f filed, user string) (left filed, changed bool, err error) {
	rows, err := a.refusals(f)
	if err != nil {
		return f, false, err
	}
	field := append([]byte{byte(len(user))}, user...)
	var rest []refusal
	for _, r := range rows {
		if !bytes.Contains(r.Message, field) {
			rest = append(rest, r)
		}
	}
	if len(rest) == len(rows) {
		return f, false, nil
	}
	out, err := newOutput[refusal](a.place, f.Table, f.Hour, f.Stored, "cut")
	if err != nil {
		return f, false, err
	}
	return a.cutTo(out.end, out.write(rest))
}

// Prune removes the hours that ended before an instant, and says how many events and
// refusals these had.
func (a *Archive) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	err = a.update(ctx, func(m *manifest) error {
		var old []filed
		for _, f := range m.Files {
			if f.Hour+hour <= before.UnixMilli() {
				old = append(old, f)
				rows += f.Rows
			}
		}
		m.drop(old...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return rows, a.vanish(ctx)
}
