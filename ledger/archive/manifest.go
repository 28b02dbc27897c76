package archive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger/raw"
)

// A manifest says what counts.
type manifest struct {
	Version int
	// Prefix and Shards are of the fabric whose events these are.
	Prefix string
	Shards int
	// Forgets counts the users that were cut out. Who has events in memory that were
	// looked up before must read them again.
	Forgets uint64
	Readers map[int]reader // by shard
	Files   []filed
	// Obsolete files are listed no more, and go as soon as nobody reads them.
	Obsolete []string `json:",omitempty"`
}

const manifestVersion = 1

// A reader is how far the streams of a shard are in the archive.
type reader struct {
	raw.Position
	Through int64  // ms: everything stored before is in the archive
	State   string // the file with what the decoder knows
	Marks   []mark // oldest first
}

// A mark remembers where the streams stood at a time, for the purge.
type mark struct {
	Log, Beats uint64
	Time       int64 // ms: nothing up to there was stored later
}

// A filed is a file that counts.
type filed struct {
	Table  string
	Name   string // its path, with slashes
	Hour   int64  // ms: the start of the hour of its events
	Stored int64  // ms: and of that in which they were stored
	Rows   int64
	Bytes  int64
}

// The tables.
const (
	eventsTable   = "events"
	rejectedTable = "rejected"
)

func (m *manifest) encode() ([]byte, error) { return json.Marshal(m) }

func decodeManifest(data []byte) (*manifest, error) {
	m := new(manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("%w: manifest of version %d, and this program knows %d", ErrDamaged, m.Version, manifestVersion)
	}
	return m, nil
}

// drop takes files out, and says whether all of them counted.
func (m *manifest) drop(files ...filed) bool {
	found := 0
	m.Files = slices.DeleteFunc(m.Files, func(f filed) bool {
		gone := slices.ContainsFunc(files, func(g filed) bool { return g.Name == f.Name })
		if gone {
			found++
			m.Obsolete = append(m.Obsolete, f.Name)
		}
		return gone
	})
	return found == len(files)
}

// through is until when every shard is in the archive.
func (m *manifest) through() int64 {
	if len(m.Readers) < m.Shards {
		return 0
	}
	least := int64(math.MaxInt64)
	for _, r := range m.Readers {
		least = min(least, r.Through)
	}
	return least
}

// table lists the files of one, by the hour in which their rows were stored, then by the
// hour of their events.
func (m *manifest) table(name string) []filed {
	var files []filed
	for _, f := range m.Files {
		if f.Table == name {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b filed) int {
		return cmp.Or(cmp.Compare(a.Stored, b.Stored), cmp.Compare(a.Hour, b.Hour), strings.Compare(a.Name, b.Name))
	})
	return files
}

// partition is the directory of an hour, as Hive and everybody since names it.
func partition(table string, hour int64) string {
	t := time.UnixMilli(hour).UTC()
	return path.Join(table, "date="+t.Format(time.DateOnly), "hour="+t.Format("15"))
}

const maxMarks = 2048

// thinned leaves every other mark out where there are too many because nobody purges.
func thinned(marks []mark) []mark {
	if len(marks) <= maxMarks {
		return marks
	}
	var few []mark
	for i := 1; i < len(marks); i += 2 {
		few = append(few, marks[i])
	}
	return few
}
