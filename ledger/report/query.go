package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// ErrQuery is a question that makes no sense; the wrapping says why.
var ErrQuery = errors.New("report: invalid question")

// A Column is what rows are grouped by.
type Column string

// The columns.
const (
	User    Column = "user"
	Device  Column = "device"
	Client  Column = "client"
	Version Column = "version"
	Channel Column = "channel"
	Region  Column = "region"
	Day     Column = "day"
	Week    Column = "week"
	Month   Column = "month"
)

var columns = []Column{User, Device, Client, Version, Channel, Region, Day, Week, Month}

var periods = map[Column]interval.Period{Day: interval.Day, Week: interval.Week, Month: interval.Month}

// A Query is a question.
type Query struct {
	Definition string // the version of the definition whose figures are asked for
	By         []Column
	Measure    ledger.Measure
	Zone       *interval.Zone
	Bounds     interval.Interval
	Sum        bool   // of the sessions, instead of the union of a user's
	User       string // only this one; empty for all
	// Minimum, if above 1, is how few users a figure may be of. It goes with columns of
	// clients and of the calendar only, and with whole days; see [Run].
	Minimum int
}

// ParseColumns reads the names of columns, in the order of the rows.
func ParseColumns(names []string) ([]Column, error) {
	var by []Column
	for _, name := range names {
		for _, part := range strings.Split(name, ",") {
			c := Column(strings.TrimSpace(part))
			if !slices.Contains(columns, c) {
				return nil, fmt.Errorf("%w: cannot count by %q, only by %s", ErrQuery, part, strings.Join(columnNames(columns), ", "))
			}
			if slices.Contains(by, c) {
				return nil, fmt.Errorf("%w: by %s twice", ErrQuery, c)
			}
			by = append(by, c)
		}
	}
	return by, nil
}

func columnNames(by []Column) (names []string) {
	for _, c := range by {
		names = append(names, string(c))
	}
	return names
}

// ParseBounds reads a time from, inclusive, to, exclusive: an instant as in RFC 3339, or
// a day, which begins when it does in the zone. Empty is without bound.
func ParseBounds(z *interval.Zone, from, to string) (interval.Interval, error) {
	bounds := interval.Interval{From: interval.Earliest, To: interval.Latest}
	for _, b := range []struct {
		text string
		at   *int64
	}{{from, &bounds.From}, {to, &bounds.To}} {
		if b.text == "" {
			continue
		}
		at, err := parseInstant(z, b.text)
		if err != nil {
			return bounds, err
		}
		*b.at = min(max(at, interval.Earliest), interval.Latest)
	}
	if bounds.From > bounds.To {
		return bounds, fmt.Errorf("%w: %s is after %s", ErrQuery, from, to)
	}
	return bounds, nil
}

func parseInstant(z *interval.Zone, text string) (int64, error) {
	if d, err := interval.ParseDate(text); err == nil {
		return z.Start(d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is neither a day such as 2026-07-29 nor a time such as 2026-07-29T08:00:00Z", ErrQuery, text)
	}
	return t.UnixMilli(), nil
}

// period is what rows are split by; the finest, since weeks and months do not nest
// but days lie in both.
func (q Query) period() (p interval.Period, split bool) {
	calendar := 0
	for _, c := range q.By {
		if of, ok := periods[c]; ok {
			calendar, p = calendar+1, of
		}
	}
	if calendar > 1 {
		p = interval.Day
	}
	return p, calendar > 0
}

func (q Query) validate() error {
	switch {
	case q.Zone == nil:
		return fmt.Errorf("%w: no zone", ErrQuery)
	case q.Measure == "":
		return fmt.Errorf("%w: no measure", ErrQuery)
	case q.Minimum <= 1:
		return nil
	case q.User != "" || slices.Contains(q.By, User) || slices.Contains(q.By, Device):
		return fmt.Errorf("%w: figures are of groups of %d users and more, so not of a user or a device", ErrQuery, q.Minimum)
	case !WholeDays(q.Zone, q.Bounds):
		return fmt.Errorf("%w: figures are of whole days", ErrQuery)
	}
	return nil
}

// WholeDays says whether bounds begin and end with days of a zone.
func WholeDays(z *interval.Zone, bounds interval.Interval) bool {
	begins := func(at int64) bool {
		return at == interval.Earliest || at == interval.Latest || at == z.Start(z.Date(at))
	}
	return begins(bounds.From) && begins(bounds.To)
}
