package raw

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// The saved types are the decoder's, as gob needs them.
type (
	saved struct {
		Swept  int64
		Newest map[string]uint64
		Runs   []savedRun
	}
	savedRun struct {
		Edge, Stream string
		Incarnation  uint64
		Listed       uint64
		Listing      bool
		Last         int64
		Conns        []savedConn
		Waiting      []savedWait
	}
	savedConn struct {
		Number                uint64
		User, Device, Session string
		Epoch                 int64
		Client                ledger.Client
		State                 wire.State
		Ended                 bool
		Last, Input           int64
		Listed                uint64
		Named                 bool
	}
	savedWait struct {
		Number     uint64
		At, Stored int64
		Flags      uint8
		Seq        uint64
	}
)

// Snapshot is everything that the decoder knows. Store it with the positions of what
// was added and the sink's own state.
func (d *Decoder) Snapshot() ([]byte, error) {
	s := saved{Swept: d.swept, Newest: d.newest}
	for _, r := range d.runs {
		s.Runs = append(s.Runs, r.save())
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		return nil, fmt.Errorf("raw: snapshot: %w", err)
	}
	return b.Bytes(), nil
}

func (r *run) save() savedRun {
	s := savedRun{Edge: r.edge, Stream: r.stream, Incarnation: r.incarnation, Listed: r.listed, Listing: r.listing, Last: r.last}
	for _, seat := range r.conns {
		c := seat.conn
		s.Conns = append(s.Conns, savedConn{seat.number, c.User, c.Device, c.Session, c.Epoch, c.Client, c.state, c.ended, c.last, c.input, c.listed, c.named})
	}
	for number, list := range r.waiting {
		for _, w := range list {
			s.Waiting = append(s.Waiting, savedWait{number, w.at, w.stored, w.flags, w.seq})
		}
	}
	return s
}

// Restore puts a new decoder into the state of a snapshot.
func (d *Decoder) Restore(snapshot []byte) error {
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(snapshot)).Decode(&s); err != nil {
		return fmt.Errorf("raw: snapshot: %w", err)
	}
	d.swept = s.Swept
	if s.Newest != nil {
		d.newest = s.Newest
	}
	clear(d.runs)
	for _, r := range s.Runs {
		d.runs[runKey{r.Edge, r.Incarnation}] = r.load()
	}
	return nil
}

func (s savedRun) load() *run {
	r := &run{
		runKey: runKey{s.Edge, s.Incarnation}, waiting: make(map[uint64][]wait),
		listed: s.Listed, listing: s.Listing, last: s.Last, stream: s.Stream,
	}
	for _, c := range s.Conns {
		r.conns.add(c.Number, &Conn{
			User: c.User, Device: c.Device, Session: c.Session, Epoch: c.Epoch, Client: c.Client,
			state: c.State, ended: c.Ended, last: c.Last, input: c.Input, listed: c.Listed, named: c.Named,
		})
	}
	for _, w := range s.Waiting {
		r.waiting[w.Number] = append(r.waiting[w.Number], wait{w.At, w.Stored, w.Flags, w.Seq})
	}
	return r
}
