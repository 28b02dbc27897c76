package keeper

// A bias turns the log's sequences into ones that only grow. A log that lost its
// tail gives out sequences again that the records already know; the bias lifts
// what comes after the loss above them.
type bias uint64

func (b bias) grow(seq uint64) uint64 { return seq + uint64(b) }

func (b bias) shrink(grown uint64) uint64 { return grown - min(grown, uint64(b)) }

// lifted is the bias for what comes after end, if known is already used.
func (b bias) lifted(end, known uint64) bias {
	if b.grow(end) >= known {
		return b
	}
	return bias(known - end)
}
