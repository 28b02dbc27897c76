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
		s.lose(0)
	}
}

// Lose says that a resync of these shards has failed half-way.
func (r *Reducer) Lose(shards map[int]bool) {
	for n := range shards {
		r.shard(n).lose(0)
	}
}

// Forget drops shards in which, after a whole resync, nothing of this client is.
func (r *Reducer) Forget(shards map[int]bool) {
	for n := range shards {
		delete(r.shards, n)
		for _, e := range r.targets {
			if e.shard == n {
				e.shard = -1
			}
		}
	}
}

// Leave marks the shards of targets that this client is about to unsubscribe from,
// and returns what ends that.
func (r *Reducer) Leave(targets ...string) (done func()) {
	shards := make(map[*shard]bool)
	for _, t := range targets {
		if e := r.targets[t]; e != nil && e.shard >= 0 {
			shards[r.shard(e.shard)] = true
		}
	}
	for s := range shards {
		s.leaving++
	}
	return func() {
		for s := range shards {
			s.leaving--
		}
	}
}
