package live

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// checkpointVersion changes when an older program's checkpoint means something else.
const checkpointVersion = 1

// A saved is a checkpoint as gob needs it.
type saved struct {
	Version          int
	Writer           string // tells equal checkpoints of two ledgers apart
	Shards           int    // of the fabric: users of another number live elsewhere
	Position         raw.Position
	Time             int64
	Decoder, Builder []byte
	Generation       uint64 // of the grant under which it was written
}

// checkpoint is everything that a successor needs to go on.
func (k *books) checkpoint() ([]byte, error) {
	decoder, err := k.decoder.Snapshot()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(saved{checkpointVersion, k.writer, k.shards, k.position, k.time, decoder, k.builder.Snapshot(), k.generation})
	return b.Bytes(), err
}

// restore are the books as a checkpoint has them.
func restore(names subjects.Names, c Config, zones []zone, checkpoint store.Checkpoint) (*books, error) {
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(checkpoint.Body)).Decode(&s); err != nil {
		return nil, unusable(err)
	}
	if s.Version != checkpointVersion || s.Shards != names.Shards() {
		return nil, unusable(fmt.Errorf("version %d of a fabric of %d shards", s.Version, s.Shards))
	}
	k := emptyBooks(c, names.Shards())
	builder, err := session.Restore(k.config(), s.Builder)
	if err != nil {
		return nil, unusable(err)
	}
	k.begin(names, builder, zones)
	if err := k.decoder.Restore(s.Decoder); err != nil {
		return nil, unusable(err)
	}
	k.position, k.time, k.revision, k.generation = s.Position, s.Time, checkpoint.Revision, s.Generation
	return k, nil
}
