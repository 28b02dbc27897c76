package edge

import (
	"math"

	"github.com/rollcall-io/rollcall/subjects"
)

// A sign is the last heartbeat in one word: sequence number (32 bits), place in
// the ring (3 bits), coarse time (29 bits).
type sign uint64

const placeBits = 3

func signOf(seq uint32, place uint32, at stamp) sign {
	return sign(seq)<<32 | sign(place%(1<<placeBits))<<stampBits | sign(at)
}

func (s sign) seq() uint32   { return uint32(s >> 32) }
func (s sign) place() uint32 { return uint32(s) >> stampBits }
func (s sign) at() stamp     { return stamp(uint32(s) & stampMask) }

// lastSeq marks a connection that is gone: no sequence number is above it.
const lastSeq = math.MaxUint32

// ringSize is how many heartbeats a connection keeps between two collections. At
// the usual rate two come; the wheel collects early from those who send more.
const ringSize = 4

// A record is a heartbeat in the ring: valid (1 bit), flags (2 bits), coarse time.
// Zero is an empty slot.
type record uint32

const recordValid = 1 << 31

func recordOf(at stamp, flags uint32) record {
	return record(recordValid | flags<<stampBits | uint32(at))
}

func (r record) at() stamp { return stamp(r & stampMask) }
func (r record) flags() uint8 {
	return uint8(r>>stampBits) & (subjects.FlagForeground | subjects.FlagActive)
}

// Beat notes a heartbeat. Sequence numbers belong to the device and start at 1;
// it returns false for one that is not above the last (late or duplicate), and
// for a connection that is gone. It takes no lock and allocates nothing; beats of
// one connection may be concurrent. One that is concurrent with the end of its
// connection may be missing from the raw history.
func (c *Conn) Beat(seq uint32) bool {
	for {
		last := sign(c.last.Load())
		if seq <= last.seq() {
			return c.refuse(last)
		}
		at := c.home.clock.stamp()
		next := signOf(seq, last.place()+1, at)
		if c.last.CompareAndSwap(uint64(last), uint64(next)) {
			c.record(next.place(), recordOf(at, c.flags.Load()))
			return true
		}
	}
}

func (c *Conn) record(place uint32, r record) {
	if c.ring[place%ringSize].Swap(uint32(r)) != 0 {
		c.home.beatsDropped.Add(1) // overwritten before it was collected
	}
}

func (c *Conn) refuse(last sign) bool {
	if last.seq() != lastSeq {
		c.home.stats.lateBeats.Add(1)
	}
	return false
}

// bury makes every further beat fail and returns the last one.
func (c *Conn) bury() sign {
	for {
		if last := sign(c.last.Load()); c.buryIf(last) {
			return last
		}
	}
}

// buryIf does so unless a beat came in after the given one: it came in time.
func (c *Conn) buryIf(last sign) bool {
	return c.last.CompareAndSwap(uint64(last), uint64(signOf(lastSeq, 0, last.at())))
}

// crowded says whether the ring may overflow before the next renewal.
func (c *Conn) crowded() bool {
	used := 0
	for i := range c.ring {
		if c.ring[i].Load() != 0 {
			used++
		}
	}
	return used > ringSize/2
}
