package live

import (
	"errors"
	"fmt"
)

// Live is nil while no lock of the ledger is held for ever.
func (l *Ledger) Live() error {
	l.all()
	return nil
}

// Readiness is nil while the ledger is connected and follows every shard that it was given, or
// stands by for another ledger; otherwise it says what is missing. One that leaves is not ready.
func (l *Ledger) Readiness() error {
	if err := l.owner.Readiness(); err != nil {
		return err
	}
	if l.total() == 0 {
		return errors.New("looks for the fabric")
	}
	for _, s := range l.all() {
		if !s.keeping.Load() && !s.waiting.Load() {
			return fmt.Errorf("opens the books of shard %d", s.number)
		}
	}
	return nil
}
