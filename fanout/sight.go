package fanout

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Where an application decides who may know what, the board keeps its verdict with
// each watch and has it asked again from time to time, and when it said that it
// has changed its mind. A board whose application is silent shows nothing.

// verdicts is what an application said, by target. Unspecified is no answer.
type verdicts map[string]wire.Granularity

// A question is to be put to the application.
type question struct {
	viewer  string
	targets []string
}

// sightRetry is how soon the application is asked again that was silent, or for a
// viewer whose interest was restored and who did not ask itself.
const sightRetry = 5 * time.Second

// question has a stream's verdicts asked: those in doubt, or all if it is time.
func (b *board) question(s *stream, now time.Time) {
	targets := s.doubts
	if reached(s.sightAt, now) {
		targets = slices.Sorted(maps.Keys(s.watches))
		s.sightAt = now.Add(b.sightTTL)
	}
	s.doubts, s.doubtAt = nil, time.Time{}
	if len(targets) > 0 {
		b.questions = append(b.questions, question{s.viewer, targets})
	}
}

// hear takes verdicts for a stream into account and plans when to ask again.
func (b *board) hear(s *stream, said verdicts, now time.Time) {
	if !b.asks {
		return
	}
	silent := false
	for _, id := range slices.Sorted(maps.Keys(said)) {
		silent = silent || said[id] == wire.Granularity_GRANULARITY_UNSPECIFIED
		if w := s.watches[id]; w != nil && w.verdict != said[id] {
			w.verdict = said[id]
			b.check(w, now)
		}
	}
	switch again := now.Add(sightRetry); {
	case len(s.watches) == 0:
		s.sightAt = time.Time{}
	case silent && (s.sightAt.IsZero() || again.Before(s.sightAt)):
		s.sightAt = again
	case !silent && len(said) >= len(s.watches), s.sightAt.IsZero():
		s.sightAt = now.Add(b.sightTTL)
	}
	b.retime(s, now)
}

// answered takes what the application said to a question into account.
func (b *board) answered(viewer string, said verdicts, now time.Time) {
	if s := b.streams[viewer]; s != nil {
		b.hear(s, said, now)
	}
}

// doubt has verdicts asked again: those to a viewer, those about a target, or the
// one to a viewer about a target. An empty name stands for all.
func (b *board) doubt(viewer, target string, now time.Time) {
	switch {
	case target != "":
		if t := b.targets[target]; t != nil {
			for _, w := range t.watches {
				if viewer == "" || viewer == w.stream.viewer {
					b.doubtOne(w.stream, target, now)
				}
			}
		}
	case viewer != "":
		if s := b.streams[viewer]; s != nil {
			b.doubtOne(s, "", now)
		}
	}
}

// doubtOne has one verdict of a stream asked again, or all if none is named.
func (b *board) doubtOne(s *stream, target string, now time.Time) {
	switch {
	case target == "":
		s.sightAt = now
	case !slices.Contains(s.doubts, target):
		s.doubts, s.doubtAt = append(s.doubts, target), now
	}
	b.retime(s, now)
}
