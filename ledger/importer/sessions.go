package importer

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/session"
)

// sessions cuts the sorted events of each device into sessions and builds them.
type sessions struct {
	definition ledger.Definition
	name       string
	device     func(string) string
	put        func(ledger.Session)
	reject     func(ledger.Rejected)

	user, raw string // the device at hand
	pseudonym string
	live      bool
	opened    int64 // when the running session was opened last
	held      *record
	current   []record // of the session at hand
	epoch     int64
}

// add takes the next event in order.
func (s *sessions) add(r record) error {
	if r.User != s.user || r.Device != s.raw {
		if err := s.flush(); err != nil {
			return err
		}
		s.user, s.raw, s.pseudonym = r.User, r.Device, s.device(r.Device)
	}
	r.Device = s.pseudonym
	// An end and a beginning at one instant can be the end of one session and the
	// beginning of the next, or an empty session. What was running tells.
	if h := s.held; h != nil {
		s.held = nil
		if h.At == r.At && isEnd(h.Kind) != isEnd(r.Kind) && (isEnd(r.Kind) || r.Kind == ledger.KindOpen) {
			if err := s.take(r); err != nil {
				return err
			}
			return s.take(*h)
		}
		if err := s.take(*h); err != nil {
			return err
		}
	}
	if s.live && r.Kind == ledger.KindOpen && s.opened < r.At || !s.live && isEnd(r.Kind) {
		s.held = &r
		return nil
	}
	return s.take(r)
}

func isEnd(k ledger.Kind) bool { return k == ledger.KindClose || k == ledger.KindTimeout }

// take puts an event into the session that it belongs to.
func (s *sessions) take(r record) error {
	switch {
	case r.Kind == ledger.KindOpen && !s.live, len(s.current) == 0:
		if err := s.build(); err != nil {
			return err
		}
		s.epoch, s.opened, s.live = 1, r.At, !isEnd(r.Kind)
	case r.Kind == ledger.KindOpen && s.opened < r.At:
		s.epoch++
		s.opened = r.At
	case isEnd(r.Kind):
		s.live = false
	}
	r.Epoch = s.epoch
	s.current = append(s.current, r)
	return nil
}

// flush ends the device at hand.
func (s *sessions) flush() error {
	if h := s.held; h != nil {
		s.held = nil
		if err := s.take(*h); err != nil {
			return err
		}
	}
	s.live = false
	return s.build()
}

// build hands out the session at hand.
func (s *sessions) build() error {
	if len(s.current) == 0 {
		return nil
	}
	d := s.definition
	if s.silent() {
		d.Gaps.Cap = 0
	}
	b, err := session.New(session.Config{
		Definition: d, Remember: ever,
		Session: func(x ledger.Session, _ bool) { s.put(x) },
		Reject:  func(r ledger.Rejected) { s.reject(s.locate(r)) },
	})
	if err != nil {
		return fmt.Errorf("importer: %w", err)
	}
	id := identity(s.current[0])
	for _, r := range s.current {
		r.Session = id
		b.Add(r.Event)
	}
	b.Flush()
	clear(s.current)
	s.current = s.current[:0]
	return nil
}

// ever is longer than any session: a history has ended, so nobody needs to forget.
const ever = 100 * 365 * 24 * time.Hour

// silent says whether the session at hand comes from a source without heartbeats. One
// that strays in after the close says nothing of it.
func (s *sessions) silent() bool {
	opened, closed, ended := false, false, false
	for _, r := range s.current {
		switch {
		case r.Kind == ledger.KindBeat && !ended:
			return false
		case r.Kind == ledger.KindOpen:
			opened, ended = true, false
		case isEnd(r.Kind):
			closed, ended = closed || r.Kind == ledger.KindClose, true
		}
	}
	return opened && closed
}

// locate says which line it was.
func (s *sessions) locate(r ledger.Rejected) ledger.Rejected {
	r.Source = s.name
	if r.Whole != nil {
		r.Source = fmt.Sprintf("%s:%d", s.name, s.current[0].line)
		return r
	}
	for _, c := range s.current {
		if e := r.Event; c.At == e.At && c.Kind == e.Kind && c.Sequence == e.Sequence && c.Epoch == e.Epoch {
			r.Source = fmt.Sprintf("%s:%d", s.name, c.line)
			break
		}
	}
	return r
}

// identity names a session by what it is: who, on which device, since when. 80 bits are
// enough for billions.
func identity(first record) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s%d", len(first.User), first.User, len(first.Device), first.Device, first.At)
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:10]))
}
