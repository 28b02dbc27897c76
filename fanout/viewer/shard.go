package viewer

import (
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// A shard is where the stream of one shard stands for this client.
type shard struct {
	// known is set by the first answer. Before it, generation and seq are those
	// of the newest message: another client of the viewer may have the stream to
	// itself.
	known      bool
	generation uint64
	seq        uint64 // every message up to here has come, or is covered by lost
	// feed is the newest that anything told; said is what the stream said at seq.
	// Answers run ahead of the stream.
	feed, said feed
	targets    int // of the viewer, as of the last answer to this client

	// lost is set when messages up to lostSeq may be missing: subscribe again.
	lost    bool
	lostSeq uint64
	older   bool // the last base was older than lostSeq
	// claimed is a seq that an answer told of, which has claimedAt plus a moment
	// to come: answers and messages take different ways.
	claimed   uint64
	claimedAt time.Time
	leaving   int // targets that this client is unsubscribing from
}

// A feed is the state of a feed and the reason for it.
type feed struct {
	state  subjects.Feed
	reason string
}

func (s *shard) lose(seq uint64) {
	s.lost, s.lostSeq = true, max(s.lostSeq, seq)
}

// adopt takes a position over as it is, without asking what came before.
func (s *shard) adopt(p subjects.Position) {
	s.known, s.generation, s.seq, s.targets = true, p.Generation, p.Seq, p.Targets
	s.claimed, s.lostSeq, s.older = 0, 0, false
	s.said = feed{p.Feed, p.Reason}
}

// hear takes the state of the feed over and says whether it is new.
func (s *shard) hear(p subjects.Position) bool {
	before := s.feed
	s.feed = feed{p.Feed, p.Reason}
	return s.feed != before
}

// message takes the position of a message into account and says whether the feed
// has changed. The generation is not below the shard's.
func (s *shard) message(m subjects.Message) (changed bool) {
	p := m.Position
	switch {
	case !s.known:
		if s.generation == p.Generation && p.Seq < s.seq {
			return false
		}
		s.generation, s.seq = p.Generation, p.Seq
		return s.hear(p)
	case p.Generation > s.generation:
		s.adopt(p)
		s.lose(p.Seq)
		return s.hear(p)
	case p.Seq < s.seq:
		return false // late or repeated
	case p.Seq == s.seq:
		return s.hear(p)
	}
	next := p.Seq == s.seq+1
	changed = s.hear(p)
	announced := s.said != s.feed
	s.seq, s.said = p.Seq, s.feed
	if p.Seq >= s.claimed {
		s.claimed = 0
	}
	switch {
	case !next:
		s.lose(p.Seq)
	case len(m.Changes) > 0 || announced:
	case s.leaves(p):
	default:
		// It either repeats the position of a message that was lost, or says that
		// another client of this viewer has unsubscribed, maybe from our targets.
		s.lose(p.Seq)
	}
	return changed
}

// answer takes the position of a snapshot into account. A base stands for all that
// was said before it.
func (s *shard) answer(p subjects.Position, base bool, now time.Time) (changed bool) {
	switch {
	case !s.known:
		s.begin(p)
	case p.Generation > s.generation:
		s.adopt(p)
		s.lost = !base
	case base && p.Seq < s.lostSeq && s.older:
		// The owner really stands there; we have believed what it never sent.
		s.adopt(p)
		s.lost = false
	case base:
		s.targets = p.Targets
		s.older = p.Seq < s.lostSeq // maybe the answer took the longer way
		if !s.older {
			s.lost, s.lostSeq = false, 0
		}
		if p.Seq >= s.seq {
			s.seq, s.claimed, s.said = p.Seq, 0, feed{p.Feed, p.Reason}
		}
	default:
		s.targets = p.Targets
		s.claim(p.Seq, now)
	}
	if p.Seq < s.seq {
		return false
	}
	return s.hear(p)
}

// begin takes the first position over. Of the messages that were sent after it and
// have come before it, some may be missing.
func (s *shard) begin(p subjects.Position) {
	heard := stamp{s.generation, s.seq}
	s.adopt(p)
	s.lost = false
	if heard.generation == p.Generation && heard.seq > p.Seq {
		s.seq = heard.seq
		s.lose(heard.seq)
	}
}

// leaves says that just what this client unsubscribes from is missing.
func (s *shard) leaves(p subjects.Position) bool {
	return s.leaving > 0 && p.Targets == s.targets-s.leaving
}

// forget goes back to before the first answer.
func (s *shard) forget() { s.known, s.lost, s.lostSeq, s.claimed = false, false, 0, 0 }

// claim notes that messages up to seq were sent.
func (s *shard) claim(seq uint64, now time.Time) {
	if seq > s.seq && seq > s.claimed {
		s.claimed, s.claimedAt = seq, now
	}
}

// unsubscribed takes the answer to this client's unsubscribe into account. If it
// removed something, the last seq says just that.
func (s *shard) unsubscribed(p subjects.Position, now time.Time) {
	if !s.known || p.Generation != s.generation {
		return
	}
	if p.Seq == s.seq+1 && s.leaves(p) {
		s.seq = p.Seq
	}
	s.targets = p.Targets
	s.claim(p.Seq, now)
}

// refreshed compares a position with ours.
func (s *shard) refreshed(p subjects.Position, now time.Time) (changed bool) {
	switch {
	case p.Generation > s.generation:
		s.adopt(p)
		s.lose(p.Seq)
	case p.Targets != s.targets:
		s.targets = p.Targets
		s.lose(p.Seq)
	}
	s.claim(p.Seq, now)
	if p.Seq < s.seq {
		return false
	}
	return s.hear(p)
}

// overdue gives up on messages that an answer told of a while ago.
func (s *shard) overdue(now time.Time, grace time.Duration) {
	if s.claimed > s.seq && now.Sub(s.claimedAt) >= grace {
		s.seq = s.claimed
		s.lose(s.claimed)
		s.claimed = 0
	}
}
