package fanout

import (
	"errors"
	"fmt"
	"time"
)

// Live is nil while no lock of the fanout is held for ever.
func (f *Fanout) Live() error {
	for _, sh := range f.answered() {
		sh.look(func(*board, time.Time) {}) // waits for the lock
	}
	return nil
}

// Readiness is nil while the fanout is connected and answers for every shard that it owns;
// otherwise it says what is missing. One that shares the shards with others and was given
// none is ready: it takes requests and passes them on. One that leaves is not.
func (f *Fanout) Readiness() error {
	if err := f.owner.Readiness(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.answering {
		return errors.New("looks for the fabric")
	}
	want := f.granted
	if f.owner.Alone() {
		want = f.fabric.Shards()
	}
	if loaded := len(f.shards); loaded < want {
		return fmt.Errorf("has loaded %d of %d shards", loaded, want)
	}
	return nil
}
