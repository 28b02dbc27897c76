package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
)

// Row is one line of a published history: what a viewer received, and when.
type Row struct {
	At      time.Duration
	User    string
	Status  rollcall.Status
	Version uint64
}

// A Violation is a row, or the lack of one, that breaks a rule.
type Violation struct {
	Rule int
	User string
	At   time.Duration
	What string
}

func (v Violation) String() string {
	return fmt.Sprintf("rule %d: user %s at %s: %s", v.Rule, v.User, v.At, v.What)
}

// Check holds a published history, of the given length, against the rules. At once
// means within prompt.
func Check(events []Event, published []Row, params rollcall.Params, length, prompt time.Duration) []Violation {
	rows := make(map[string][]Row)
	for _, r := range published {
		rows[r.User] = append(rows[r.User], r)
	}
	var violations []Violation
	stays, moody := stays(events, params)
	for _, user := range Users(events) {
		c := checker{user: user, stays: sorted(stays[user]), rows: rows[user], length: length, prompt: prompt, moody: moody[user]}
		violations = append(violations, c.check()...)
		delete(rows, user)
	}
	for user, r := range rows {
		violations = append(violations, Violation{1, user, r[0].At, "is not in the trace"})
	}
	return violations
}

// A stay is the time in which a device is connected and speaks, and the window in
// which its end may be noticed.
type stay struct {
	from, to         time.Duration // to is forever while it lasts
	earliest, latest time.Duration // of the user's offline, if it was the last
}

const forever = time.Duration(1<<63 - 1)

// stays computes every device's times of presence; moody names the users whose
// devices change state while they are online.
func stays(events []Event, params rollcall.Params) (perUser map[string][]stay, moody map[string]bool) {
	r := reckoner{bounds: params.Bounds(), open: make(map[rollcall.Endpoint]*connection)}
	moody = make(map[string]bool)
	for _, e := range events {
		endpoint := rollcall.Endpoint{User: e.User, Device: e.Device}
		switch e.Kind {
		case Open:
			r.end(endpoint, e.At, rollcall.Window{}) // replaced: the new stay begins at the same instant
			r.open[endpoint] = &connection{edge: e.Edge, stay: stay{e.At, forever, forever, forever}}
		case Close:
			r.end(endpoint, e.At, r.bounds.Close)
		case Silent:
			if c := r.open[endpoint]; c != nil {
				c.leave(e.At, r.bounds.HalfOpen)
			}
		case EdgeCrash:
			for endpoint, c := range r.open {
				if c.edge == e.Edge {
					r.end(endpoint, e.At, r.bounds.EdgeCrash)
				}
			}
		default:
			moody[e.User] = true
		}
	}
	for endpoint := range r.open {
		r.record(endpoint)
	}
	return r.ended, moody
}

// A reckoner works out the stays from the events.
type reckoner struct {
	bounds rollcall.Bounds
	open   map[rollcall.Endpoint]*connection
	ended  map[string][]stay
}

type connection struct {
	stay
	edge string
}

// leave ends the stay. One that was silent already and is now closed, or loses its
// edge, may be noticed in either way, whichever is first.
func (c *connection) leave(at time.Duration, w rollcall.Window) {
	if c.to == forever {
		c.stay = stay{c.from, at, at + w.Earliest, at + w.Latest}
		return
	}
	c.earliest = min(c.earliest, at+w.Earliest)
	c.latest = max(c.latest, at+w.Latest)
}

func (r *reckoner) end(endpoint rollcall.Endpoint, at time.Duration, w rollcall.Window) {
	if c := r.open[endpoint]; c != nil {
		c.leave(at, w)
		r.record(endpoint)
		delete(r.open, endpoint)
	}
}

func (r *reckoner) record(endpoint rollcall.Endpoint) {
	if r.ended == nil {
		r.ended = make(map[string][]stay)
	}
	r.ended[endpoint.User] = append(r.ended[endpoint.User], r.open[endpoint].stay)
}

// sorted orders stays by their beginning.
func sorted(stays []stay) []stay {
	slices.SortFunc(stays, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	return stays
}

type checker struct {
	user           string
	stays          []stay
	rows           []Row
	length, prompt time.Duration
	moody          bool
	found          []Violation
}

func (c *checker) check() []Violation {
	c.checkRows()
	c.checkArrivals()
	c.checkDepartures()
	return c.found
}

func (c *checker) fail(rule int, at time.Duration, format string, args ...any) {
	c.found = append(c.found, Violation{rule, c.user, at, fmt.Sprintf(format, args...)})
}

// checkRows checks every row by itself and against the one before: rules 1, 3, 4.
func (c *checker) checkRows() {
	last := Row{Status: rollcall.StatusOffline}
	for _, r := range c.rows {
		if r.Version <= last.Version {
			c.fail(4, r.At, "version %d after %d", r.Version, last.Version)
		}
		switch {
		case r.Status != rollcall.StatusOnline && r.Status != rollcall.StatusOffline:
			c.fail(1, r.At, "status %q although the fabric was never interrupted", r.Status)
		case r.Status == last.Status && !c.moody:
			c.fail(4, r.At, "%s again: nothing had changed", r.Status)
		case r.Status == rollcall.StatusOffline:
			c.checkOffline(r)
		case last.Status == rollcall.StatusOffline && !c.presentAt(r.At):
			c.fail(1, r.At, "online without any device")
		}
		last = r
	}
}

func (c *checker) presentAt(at time.Duration) bool {
	return slices.ContainsFunc(c.stays, func(s stay) bool { return s.from <= at && at <= s.to })
}

func (c *checker) checkOffline(r Row) {
	for _, s := range c.stays {
		switch {
		case s.from < r.At && r.At < s.to:
			c.fail(1, r.At, "offline although a device is connected and speaks since %s", s.from)
		case s.to <= r.At && r.At < s.earliest:
			c.fail(3, r.At, "offline although a device left at %s, which cannot be known before %s", s.to, s.earliest)
		}
	}
}

// statusAt is what was shown at an instant, everything of that instant included.
func (c *checker) statusAt(at time.Duration) rollcall.Status {
	status := rollcall.StatusOffline
	for _, r := range c.rows {
		if r.At > at {
			break
		}
		status = r.Status
	}
	return status
}

// checkArrivals: online at once when a device comes (rule 2). A device that left
// before anybody could look does not count.
func (c *checker) checkArrivals() {
	for _, s := range c.stays {
		if at := s.from + c.prompt; at < s.to && at <= c.length && c.statusAt(at) != rollcall.StatusOnline {
			c.fail(2, at, "not online although a device came at %s", s.from)
		}
	}
}

// checkDepartures: offline by the bound of the last device that left (rule 2).
func (c *checker) checkDepartures() {
	for _, s := range c.stays {
		latest := s.latest
		for _, other := range c.stays {
			if other.to <= s.to { // left before, but perhaps noticed later
				latest = max(latest, other.latest)
			}
		}
		if s.to == forever || latest > c.length || c.anyBetween(s.to, latest) {
			continue
		}
		if c.statusAt(latest) != rollcall.StatusOffline {
			c.fail(2, latest, "still online although the last device left at %s", s.to)
		}
	}
}

// anyBetween says whether a device is there at some time after from and up to to.
func (c *checker) anyBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(c.stays, func(s stay) bool { return s.from <= to && s.to > from })
}
