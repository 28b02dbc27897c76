package union

import (
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Days are the local days of a session, by measure.
type Days map[ledger.Measure][]interval.PeriodTotal

// Split counts the days of one session.
func (b *Board) Split(s ledger.Session) Days { return Split(b.zone, s) }

// Split counts the days of one session in a zone.
func Split(zone *interval.Zone, s ledger.Session) Days {
	days := make(Days, len(s.Intervals))
	for m, set := range s.Intervals {
		days[m] = zone.Totals(nil, set, interval.Day)
	}
	return days
}

// Check says which rule the days of a session break: no day has more than its length
// ([ledger.RuleDay]), the days add up to the session ([ledger.RuleParts]), and active
// lies in the foreground, which lies in connected time ([ledger.RuleNesting]). It
// returns nil if all is well.
func Check(zone *interval.Zone, s ledger.Session, days Days) *ledger.Rejected {
	refuse := func(rule, format string, args ...any) *ledger.Rejected {
		return &ledger.Rejected{Rule: rule, Reason: fmt.Sprintf(format, args...), At: time.UnixMilli(s.End).UTC(), Whole: &s}
	}
	for m, set := range s.Intervals {
		sum := int64(0)
		for _, t := range days[m] {
			bounds := zone.Bounds(interval.Day, t.Date)
			if t.Total > bounds.Length() {
				return refuse(ledger.RuleDay, "%s of %d ms on %s, which has %d", m, t.Total, t.Date, bounds.Length())
			}
			sum += t.Total
		}
		if total := interval.Total(set); sum != total || !interval.IsSet(set) {
			return refuse(ledger.RuleParts, "%s of %d ms in days that add up to %d", m, total, sum)
		}
	}
	m := interval.Measures{Connected: s.Intervals[ledger.Connected], Foreground: s.Intervals[ledger.Foreground], Active: s.Intervals[ledger.Active]}
	if err := m.Check(); err != nil {
		return refuse(ledger.RuleNesting, "%v", err)
	}
	return nil
}
