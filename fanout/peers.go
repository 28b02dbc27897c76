package fanout

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Fanouts tell each other which shards they own: when that changes, when somebody
// asks, and from time to time, so that a lost message is made up for and whoever
// crashed is forgotten.
const (
	sayEvery  = 5 * time.Second
	forgotten = 3*sayEvery + time.Second
)

// A peer is another fanout of the fabric, as this one knows it.
type peer struct {
	id, holder string
	shards     map[int]uint64 // the generation of each that it owns
	heard      time.Time
	// silent says that it did not answer; it counts for nothing until it is heard again.
	silent bool
}

func (p *peer) living(now time.Time) bool { return !p.silent && now.Sub(p.heard) < forgotten }

// livingLocked are the peers that may be asked.
func (f *Fanout) livingLocked() (living []*peer) {
	now := time.Now()
	for _, p := range f.peers {
		if p.living(now) {
			living = append(living, p)
		}
	}
	return living
}

// ownerLocked is who answers for a shard: whoever has it under the highest generation,
// either this fanout or a peer, or nobody.
func (f *Fanout) ownerLocked(shard int) (mine *shard, other *peer) {
	mine = f.shards[shard]
	if len(f.peers) == 0 {
		return mine, nil
	}
	var highest uint64
	if mine != nil {
		highest = mine.grant.Generation
	}
	now := time.Now()
	for _, p := range f.peers {
		// The generation is never 0: see rollcall.NextGeneration.
		if g := p.shards[shard]; g > highest && p.living(now) {
			mine, other, highest = nil, p, g
		}
	}
	return mine, other
}

// homeOf is the peer that handles the requests of a viewer, or about the policy of a
// user; nil for this fanout itself. All fanouts that know of each other name the same one
// (rendezvous hashing), so that one sequence and one allowance holds for each id, wherever
// NATS delivers its requests.
func (f *Fanout) homeOf(id string) *peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.peers) == 0 {
		return nil
	}
	var home *peer
	highest, now := uint64(0), time.Now()
	if !f.leaving.Load() {
		highest = weight(f.id, id)
	}
	for _, p := range f.peers {
		if w := weight(p.id, id); w > highest && p.living(now) {
			home, highest = p, w
		}
	}
	return home
}

func weight(fanout, id string) uint64 {
	h := xxhash.New()
	h.WriteString(fanout)
	h.WriteString(id)
	return h.Sum64()
}

// mingle makes this fanout known to its peers until ctx ends.
func (f *Fanout) mingle(ctx context.Context) {
	again := time.NewTicker(sayEvery)
	defer again.Stop()
	f.askPeers()
	for {
		select {
		case <-ctx.Done():
			f.leaving.Store(true)
			f.say(f.state())
			return
		case <-again.C:
			f.forgetDead()
		case <-f.news:
		}
		f.say(f.state())
	}
}

// state is what the peers are told.
func (f *Fanout) state() *wire.PeerState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &wire.PeerState{Holder: f.cfg.Holder, Asks: f.asks.Swap(false), Leaves: f.leaving.Load()}
	for n, sh := range f.shards {
		s.Shards = append(s.Shards, &wire.PeerState_Owned{Shard: uint32(n), Generation: sh.grant.Generation})
	}
	return s
}

func (f *Fanout) say(s *wire.PeerState) {
	if !f.nc.IsConnected() {
		return // it would be old when it comes; followConnection makes up for it
	}
	s.Id = f.id
	data, err := subjects.Encode(s)
	if err == nil {
		err = f.nc.Publish(f.fabric.Peers(), data)
	}
	if err != nil {
		f.cfg.Logger.Warn("peers not told", "err", err)
	}
}

// askPeers has everybody say what they own.
func (f *Fanout) askPeers() {
	f.asks.Store(true)
	signal(f.news)
}

// hear takes what a peer says of itself into account.
func (f *Fanout) hear(m *nats.Msg) {
	p, s, err := f.readState(m.Data)
	if err != nil {
		f.metrics.malformed.Inc()
		f.cfg.Logger.Warn("word of a peer ignored", "err", err)
		return
	}
	if p.id == f.id {
		return
	}
	f.mu.Lock()
	known := f.peers[p.id]
	if s.Leaves {
		delete(f.peers, p.id)
	} else {
		f.peers[p.id] = p
	}
	f.metrics.peers.Set(float64(len(f.peers)))
	f.mu.Unlock()
	switch {
	case s.Leaves && known != nil:
		f.cfg.Logger.Info("peer has left", "peer", p.id, "holder", known.holder)
	case !s.Leaves && known == nil:
		f.cfg.Logger.Info("peer found", "peer", p.id, "holder", p.holder, "shards", len(p.shards))
	}
	if s.Asks || known == nil && !s.Leaves {
		signal(f.news)
	}
}

func (f *Fanout) readState(data []byte) (*peer, *wire.PeerState, error) {
	s := new(wire.PeerState)
	if err := subjects.Decode(data, s); err != nil {
		return nil, nil, err
	}
	if err := rollcall.CheckID(s.Id); err != nil {
		return nil, nil, err
	}
	p := &peer{id: s.Id, holder: s.Holder, shards: make(map[int]uint64, len(s.Shards)), heard: time.Now()}
	for _, owned := range s.Shards {
		if owned.Shard >= uint32(f.fabric.Shards()) {
			return nil, nil, fmt.Errorf("%w: shard %d", subjects.ErrMalformed, owned.Shard)
		}
		p.shards[int(owned.Shard)] = owned.Generation
	}
	return p, s, nil
}

// mistrust leaves a peer aside that did not answer, until it is heard again.
func (f *Fanout) mistrust(id string, err error) {
	f.mu.Lock()
	p := f.peers[id]
	first := p != nil && !p.silent
	if first {
		p.silent = true
	}
	f.mu.Unlock()
	if first {
		f.cfg.Logger.Warn("peer does not answer", "peer", id, "holder", p.holder, "err", err)
	}
	f.askPeers()
}

func (f *Fanout) forgetDead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, p := range f.peers {
		if time.Since(p.heard) >= forgotten {
			delete(f.peers, id)
			f.cfg.Logger.Warn("peer forgotten", "peer", id, "holder", p.holder)
		}
	}
	f.metrics.peers.Set(float64(len(f.peers)))
}
