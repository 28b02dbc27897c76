package archive

import (
	"cmp"
	"strings"

	"github.com/rollcall-io/rollcall/ledger"
)

// A row is an event as it is in a file. Sorted by session, all but the times repeat
// from row to row, which dictionaries make cheap; times are cheapest as they are.
type row struct {
	At         int64  `parquet:"at,timestamp(millisecond)"`
	StoredAt   int64  `parquet:"stored_at,timestamp(millisecond),dict"`
	User       string `parquet:"user,dict"`
	Device     string `parquet:"device,dict"`
	Session    string `parquet:"session,dict"`
	Epoch      int64  `parquet:"epoch,dict"`
	Sequence   int64  `parquet:"sequence,dict"`
	Kind       string `parquet:"kind,dict"`
	Activity   string `parquet:"activity,dict"`
	Stated     bool   `parquet:"stated"`
	Foreground bool   `parquet:"foreground"`
	Active     bool   `parquet:"active"`
	Adopted    bool   `parquet:"adopted"`
	Type       string `parquet:"client_type,dict"`
	Version    string `parquet:"client_version,dict"`
	Channel    string `parquet:"channel,dict"`
	Region     string `parquet:"region,dict"`
	Shard      int64  `parquet:"shard,dict"`
	Stream     string `parquet:"stream,dict"`
	Position   int64  `parquet:"position,dict"`
}

// The names of the streams.
const (
	logStream   = "log"
	beatsStream = "beats"
)

// kinds are the names of the kinds, as in imported histories.
var kinds = [...]string{
	ledger.KindOpen: "open", ledger.KindBeat: "beat", ledger.KindForeground: "foreground", ledger.KindBackground: "background",
	ledger.KindActive: "active", ledger.KindIdle: "idle", ledger.KindClose: "close", ledger.KindTimeout: "timeout", ledger.KindLogout: "logout",
}

// kindOf is 0 for a name that is none.
func kindOf(name string) ledger.Kind {
	if name == kinds[ledger.KindBeat] { // nearly always
		return ledger.KindBeat
	}
	for k, n := range kinds {
		if n == name {
			return ledger.Kind(k)
		}
	}
	return 0
}

func streamOf(beats bool) string {
	if beats {
		return beatsStream
	}
	return logStream
}

func (r *row) event() Event {
	return Event{
		Event: ledger.Event{
			At: r.At, User: r.User, Device: r.Device, Session: r.Session, Epoch: r.Epoch, Sequence: uint64(r.Sequence),
			Kind: kindOf(r.Kind), Activity: r.Activity, Stated: r.Stated, Foreground: r.Foreground, Active: r.Active,
			Client: ledger.Client{Type: r.Type, Version: r.Version, Channel: r.Channel, Region: r.Region},
		},
		Stored: r.StoredAt, Adopted: r.Adopted,
		Origin: Origin{Shard: int(r.Shard), Beats: r.Stream == beatsStream, Seq: uint64(r.Position)},
	}
}

// compare is the order of the rows of a file.
func (r *row) compare(o *row) int {
	return cmp.Or(strings.Compare(r.User, o.User), strings.Compare(r.Session, o.Session), cmp.Compare(r.Epoch, o.Epoch), cmp.Compare(r.At, o.At),
		cmp.Compare(r.StoredAt, o.StoredAt))
}

// A refusal is what could not be read, as it is in a file.
type refusal struct {
	At       int64  `parquet:"at,timestamp(millisecond)"`
	StoredAt int64  `parquet:"stored_at,timestamp(millisecond)"`
	Shard    int64  `parquet:"shard,dict"`
	Stream   string `parquet:"stream,dict"`
	Position int64  `parquet:"position"`
	Rule     string `parquet:"rule,dict"`
	Reason   string `parquet:"reason,dict"`
	Source   string `parquet:"source"`
	Raw      string `parquet:"raw"`     // as the quarantine has it
	Message  []byte `parquet:"message"` // the whole message, if it is that which cannot be read
}
