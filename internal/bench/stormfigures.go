package bench

import "time"

// stormTarget is the share of the raw rate that the fanout is to reach.
const stormTarget = 0.9

// stormFigures gathers the rounds.
type stormFigures struct {
	Storm
	paced, burst haul
	told, last   []time.Duration
	due          []time.Duration // of bursts
	shares       []float64       // of the raw rate
	rounds       []stormRound    // paced
}

// addPaced takes in a storm as it is.
func (f *stormFigures) addPaced(got stormRound) {
	all := total(got.waves)
	f.paced.count(all)
	f.rounds = append(f.rounds, got)
	f.told, f.last = append(f.told, all.last-all.first), append(f.last, got.last)
	f.Waves.add(int64(all.messages), all.took)
	f.HeapBefore, f.HeapPeak = max(f.HeapBefore, got.heap.before), max(f.HeapPeak, got.heap.most)
	f.RSSPeak = max(f.RSSPeak, got.resident.most)
}

// addBurst takes in a storm that was due at once.
func (f *stormFigures) addBurst(got burst) {
	f.burst.count(got.haul)
	f.Burst.add(int64(got.messages), got.backlog)
	f.Core.add(int64(got.messages), got.core)
	f.shares = append(f.shares, got.core.Seconds()/got.backlog.Seconds())
	f.due = append(f.due, got.spread)
	n := float64(max(got.messages, 1))
	if got.busy > 0 {
		f.BurstBusy.append(microseconds(got.busy) / n)
	}
	f.CoreBusy.append(microseconds(got.coreBusy) / n)
}

// bound is how late after the first view was written the last change may be told: the
// time in which the views were written, the longest that the fanout may hold a change
// back, and the time that all messages take at the rate that is aimed at.
func (f *stormFigures) bound(got stormRound) time.Duration {
	sending := float64(total(got.waves).messages) / (stormTarget * f.Core.Median)
	return got.span + got.hold + time.Duration(sending*float64(time.Second))
}

func (f *stormFigures) sum(viewers int) *Storm {
	s := f.Storm
	s.PerViewer = round(float64(f.paced.messages)/float64(len(f.rounds)*viewers), 2)
	s.ChangesEach, s.Bytes = f.paced.each()
	s.BurstEach, s.BurstBytes = f.burst.each()
	s.BurstShare = round(median(f.shares), 4)
	var bounds []time.Duration
	for _, got := range f.rounds {
		bound := f.bound(got)
		bounds = append(bounds, bound)
		s.BoundUsed = max(s.BoundUsed, round(got.last.Seconds()/bound.Seconds(), 4))
		s.BoundKept = s.BoundUsed <= 1
	}
	s.Told, s.Written, s.Bound, s.BurstDue = spreadOf(f.told), spreadOf(f.last), spreadOf(bounds), spreadOf(f.due)
	return &s
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
