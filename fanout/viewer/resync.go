package viewer

import "time"

// Grace is how long after an answer the messages that it told of may arrive.
const Grace = 2 * time.Second

// Lost returns the shards of which messages may be missing.
func (r *Reducer) Lost(now time.Time) map[int]bool {
	lost := make(map[int]bool)
	for n, s := range r.shards {
		s.overdue(now, Grace)
		if s.lost {
			lost[n] = true
		}
	}
	return lost
}

// NextClaim is when Lost may find more, zero for never.
func (r *Reducer) NextClaim() (next time.Time) {
	for _, s := range r.shards {
		if s.claimed <= s.seq {
			continue
		}
		if at := s.claimedAt.Add(Grace); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// LoseAll says that anything may have been missed.
func (r *Reducer) LoseAll() {
	for _, s := range r.shards {
		if s.known {
			s.lose(0)
		}
	}
}

// Lose says that a resync of these shards has failed half-way.
func (r *Reducer) Lose(shards map[int]bool) {
	for n := range shards {
		if s := r.shard(n); s.known {
			s.lose(0)
		}
	}
}

// Forget drops shards in which, after a whole resync, nothing of this client is.
func (r *Reducer) Forget(shards map[int]bool) {
	for n := range shards {
		r.shard(n).forget()
	}
}

// Leave notes that this client is about to unsubscribe from targets, so that it
// knows its own doing from that of other clients. Call done after the answer.
func (r *Reducer) Leave(targets ...string) (done func()) {
	leaving := make(map[*shard]int)
	for _, t := range targets {
		if e := r.targets[t]; e != nil && e.shard >= 0 {
			leaving[r.shard(e.shard)]++
		}
	}
	for s, n := range leaving {
		s.leaving += n
	}
	return func() {
		for s, n := range leaving {
			s.leaving -= n
		}
	}
}
