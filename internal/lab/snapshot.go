package lab

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
)

// Snapshot is what a stream's files held at one instant.
type Snapshot struct {
	stream string
	dir    string
}

// Snapshot copies the files of a stream or, as KV_<bucket>, of a bucket, consumers
// included. It needs no stop: nats-server writes messages of unreplicated streams
// to the file before it acknowledges them, and the copy is made while everything
// in the bubble waits. So it holds exactly what was acknowledged by now. Call it
// inside a [Bubble].
func (s *Server) Snapshot(stream string) *Snapshot {
	s.t.Helper()
	synctest.Wait()
	snapshot := &Snapshot{stream, filepath.Join(s.t.TempDir(), stream)}
	if err := os.CopyFS(snapshot.dir, os.DirFS(s.streamDir(stream))); err != nil {
		s.t.Fatalf("lab: snapshot of %s: %v", stream, err)
	}
	return snapshot
}

// Restore puts a stream back to where it was, as a power failure does to writes
// that were acknowledged but not synced. The server must be stopped. Other streams
// keep their present: their writes were synced, as luck had it.
func (s *Server) Restore(snapshot *Snapshot) {
	s.t.Helper()
	if s.Running() {
		s.t.Fatalf("lab: stop the server before restoring %s", snapshot.stream)
	}
	dir := s.streamDir(snapshot.stream)
	if err := os.RemoveAll(dir); err != nil {
		s.t.Fatalf("lab: restoring %s: %v", snapshot.stream, err)
	}
	if err := os.CopyFS(dir, os.DirFS(snapshot.dir)); err != nil {
		s.t.Fatalf("lab: restoring %s: %v", snapshot.stream, err)
	}
}

// CutTail takes bytes off the end of what a stream's files hold of its last messages, whether
// that ends a message or not: as if that much had not reached the disk. If indexed, what the server
// noted when it stopped has reached it. The server must be stopped. It returns how many bytes it took.
func (s *Server) CutTail(stream string, bytes int64, indexed bool) (cut int64) {
	s.t.Helper()
	if s.Running() {
		s.t.Fatalf("lab: stop the server before cutting %s", stream)
	}
	dir := filepath.Join(s.streamDir(stream), "msgs")
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	if err != nil || len(blocks) == 0 {
		return 0
	}
	last := slices.MaxFunc(blocks, func(a, b string) int { return cmp.Compare(blockNumber(a), blockNumber(b)) })
	info, err := os.Stat(last)
	if err == nil {
		cut = min(bytes, info.Size())
		err = os.Truncate(last, info.Size()-cut)
	}
	if err == nil && !indexed {
		err = os.RemoveAll(filepath.Join(dir, "index.db"))
	}
	if err != nil {
		s.t.Fatalf("lab: cutting %s: %v", stream, err)
	}
	return cut
}

func blockNumber(path string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".blk")) // the server names them so
	return n
}

// streamDir is where nats-server keeps a stream of the only account that has some.
func (s *Server) streamDir(stream string) string {
	account := "$G"
	if s.authority != nil {
		account = s.authority.Account()
	}
	return filepath.Join(s.dir, "jetstream", account, "streams", stream)
}
