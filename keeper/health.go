package keeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Live is nil while the keeper's loops turn, whether the store is there or not.
func (k *Keeper) Live() error {
	k.mu.Lock()
	shards := slices.Collect(maps.Values(k.shards))
	k.mu.Unlock()
	for _, s := range shards {
		s.stats() // waits for the lock
		if still := s.ticker.stuck(); still > 0 {
			return fmt.Errorf("has not ticked in shard %d for %s", s.grant.Shard, still.Round(time.Second))
		}
	}
	return nil
}

// Readiness is nil while the keeper is connected and the log of every shard that it owns is read up
// to the present; otherwise it says what is missing. One that shares the shards with others
// and was given none is ready to be given some. One that leaves is not.
func (k *Keeper) Readiness() error {
	if err := k.owner.Readiness(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	want := len(k.shards)
	if k.owner.Alone() {
		want = k.total
	}
	switch ready := k.readyLocked(); {
	case k.total == 0:
		return errors.New("looks for the fabric")
	case ready < want:
		return fmt.Errorf("has read the log of %d of %d shards", ready, want)
	}
	return nil
}
