package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/internal/filelock"
)

// A place is the directory of an archive.
type place struct {
	disk
	dir string
}

// Files of a place beside the tables.
const (
	manifestFile = "manifest.json"
	stateDir     = "state"

	archiverLock = "archiver.lock" // held by the one who archives
	manifestLock = "manifest.lock" // held by who changes the manifest
	readersLock  = "readers.lock"  // shared by those who read files
)

func (p place) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

func (p place) lock(ctx context.Context, name string, mode filelock.Mode) (*filelock.Lock, error) {
	return filelock.Wait(ctx, p.path(name), mode)
}

// load reads the manifest; [ErrNone] if there is none.
func (p place) load() (*manifest, error) {
	data, err := os.ReadFile(p.path(manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNone, p.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return decodeManifest(data)
}

// update changes the manifest while nobody else does, and then removes what has become
// obsolete, if nobody reads it.
func (p place) update(ctx context.Context, change func(*manifest) error) error {
	lock, err := p.lock(ctx, manifestLock, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer lock.Release()
	return p.updateLocked(ctx, change)
}

// updateLocked is update for whoever holds the lock.
func (p place) updateLocked(ctx context.Context, change func(*manifest) error) error {
	m, err := p.load()
	if err != nil {
		return err
	}
	m.Obsolete = slices.DeleteFunc(m.Obsolete, p.gone)
	if err := change(m); err != nil {
		return err
	}
	if err := p.save(m); err != nil {
		return err
	}
	readers, err := filelock.Try(p.path(readersLock), filelock.Exclusive)
	if err != nil { // next time
		return nil
	}
	defer readers.Release()
	return p.clean(m)
}

func (p place) save(m *manifest) error {
	data, err := m.encode()
	if err == nil {
		err = p.replace(p.path(manifestFile), data)
	}
	return wrap("manifest", err)
}

func (p place) gone(name string) bool {
	_, err := os.Stat(p.path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// clean removes what is obsolete. That it is gone is written with the next change.
func (p place) clean(m *manifest) error {
	for _, name := range m.Obsolete {
		if err := p.remove(p.path(name)); err != nil {
			return wrap("remove", err)
		}
	}
	return nil
}

// tidy removes everything that does not count: what a process left that was killed.
func (p place) tidy(m *manifest) error {
	counts := map[string]bool{manifestFile: true, archiverLock: true, manifestLock: true, readersLock: true}
	for _, f := range m.Files {
		counts[f.Name] = true
	}
	for _, r := range m.Readers {
		counts[r.State] = true
	}
	for _, name := range m.Obsolete { // somebody may read it
		counts[name] = true
	}
	return filepath.WalkDir(p.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(p.dir, path)
		if err != nil || counts[filepath.ToSlash(name)] || !ours(name) {
			return err
		}
		return p.remove(path)
	})
}

// ours says whether a file has a name that we give.
func ours(name string) bool {
	return strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, ".parquet") || filepath.Dir(name) == stateDir
}

// make makes an archive unless there is one, for a fabric of so many shards.
func (p place) make(ctx context.Context, prefix string, shards int) error {
	if err := p.mkdir(p.dir); err != nil {
		return wrap("make", err)
	}
	lock, err := p.lock(ctx, manifestLock, filelock.Exclusive)
	if err != nil {
		return wrap("make", err)
	}
	defer lock.Release()
	m, err := p.load()
	switch {
	case errors.Is(err, ErrNone):
		return p.save(&manifest{Version: manifestVersion, Prefix: prefix, Shards: shards})
	case err != nil:
		return err
	case m.Prefix != prefix || m.Shards != shards:
		return fmt.Errorf("%w: %s is of %q with %d shards, not of %q with %d", ErrForeign, p.dir, m.Prefix, m.Shards, prefix, shards)
	}
	return nil
}

// set changes how far a shard is.
func (m *manifest) set(shard int, r reader) {
	if old := m.Readers[shard].State; old != "" && old != r.State {
		m.Obsolete = append(m.Obsolete, old)
	}
	if m.Readers == nil {
		m.Readers = make(map[int]reader)
	} else {
		m.Readers = maps.Clone(m.Readers)
	}
	m.Readers[shard] = r
}

// unique is a name that no file has had, which begins with an hour for people.
func unique(hour int64, shard string) string {
	return time.UnixMilli(hour).UTC().Format("20060102T15") + "-" + shard + "-" + strings.ToLower(rand.Text()[:12])
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("archive: %s: %w", what, err)
}
