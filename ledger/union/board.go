package union

import (
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// A Total is the time of one user on one local day.
type Total struct {
	User    string
	Measure ledger.Measure
	Date    interval.Date
	Total   int64 // ms, of all sessions together; 0 withdraws what was told before
	Sum     int64 // ms, of each session by itself
}

// A Day is the time of all users together on one local day.
type Day struct {
	Users      int
	Total, Sum int64 // ms, as in [Total]
}

// Board counts by user and day of one zone. Use [New]. It is not safe for concurrent
// use.
type Board struct {
	zone   *interval.Zone
	reject func(ledger.Rejected)
	bound  int64
	users  map[string]*user
	dirty  []*user
	lists  [][]interval.Interval
	merged []interval.Interval
	totals []interval.PeriodTotal
	days   map[day]Day // of what was told
}

type user struct {
	name  string
	rows  map[ledger.SessionKey]row
	told  map[day]figure
	dirty bool
}

type figure struct{ total, sum int64 }

type row struct {
	revision  uint64
	intervals map[ledger.Measure][]interval.Interval
}

type day struct {
	measure ledger.Measure
	date    interval.Date
}

// New returns an empty board.
func New(zone *interval.Zone, reject func(ledger.Rejected)) *Board {
	return &Board{zone: zone, reject: reject, bound: interval.Earliest, users: make(map[string]*user), days: make(map[day]Day)}
}

// Add takes the row of a session, in place of every older revision of it. The board
// keeps the intervals and does not write to them.
func (b *Board) Add(s ledger.Session) {
	k := s.Key()
	u := b.users[s.User]
	if u == nil {
		u = &user{name: s.User, rows: make(map[ledger.SessionKey]row), told: make(map[day]figure)}
		b.users[s.User] = u
	}
	if known, ok := u.rows[k]; ok && known.revision > s.Revision {
		return
	}
	if r := Check(b.zone, s, b.Split(s)); r != nil {
		b.reject(*r)
		s.Intervals = nil
	}
	u.rows[k] = row{s.Revision, b.after(s.Intervals)}
	if !u.dirty {
		u.dirty = true
		b.dirty = append(b.dirty, u)
	}
}

// after is what lies behind the bound; nothing is copied if that is everything.
func (b *Board) after(m map[ledger.Measure][]interval.Interval) map[ledger.Measure][]interval.Interval {
	early := false
	for _, set := range m {
		early = early || len(set) > 0 && set[0].From < b.bound
	}
	if !early {
		return m
	}
	rest := make(map[ledger.Measure][]interval.Interval, len(m))
	for measure, set := range m {
		if set := interval.Clip(slices.Clone(set), interval.Interval{From: b.bound, To: interval.Latest}); len(set) > 0 {
			rest[measure] = set
		}
	}
	return rest
}

// Publish calls each for every total that differs from what it was told last.
func (b *Board) Publish(each func(Total)) {
	for _, u := range b.dirty {
		b.publish(u, each)
		u.dirty = false
	}
	b.dirty = b.dirty[:0]
}

func (b *Board) publish(u *user, each func(Total)) {
	now := make(map[day]figure, len(u.told))
	for _, m := range u.measures() {
		b.count(u, m, now)
	}
	tell := func(d day, f figure) {
		b.sum(d, u.told[d], f)
		each(Total{u.name, d.measure, d.date, f.total, f.sum})
	}
	for d, f := range now {
		if u.told[d] != f {
			tell(d, f)
		}
	}
	for d := range u.told {
		if _, there := now[d]; !there {
			tell(d, figure{})
		}
	}
	u.told = now
}

// sum keeps what all users have together.
func (b *Board) sum(d day, before, now figure) {
	all := b.days[d]
	all.Total += now.total - before.total
	all.Sum += now.sum - before.sum
	if before.total == 0 {
		all.Users++
	}
	if now.total == 0 {
		all.Users--
	}
	b.days[d] = all
}

// Day is what all users have on a day, as it was published; of a day that is final it is
// forgotten.
func (b *Board) Day(m ledger.Measure, date interval.Date) Day { return b.days[day{m, date}] }

func (u *user) measures() (list []ledger.Measure) {
	for _, r := range u.rows {
		for m, set := range r.intervals {
			if len(set) > 0 && !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
	}
	return list
}

// count adds the days of one measure.
func (b *Board) count(u *user, m ledger.Measure, days map[day]figure) {
	b.lists = b.lists[:0]
	for _, r := range u.rows {
		if set := r.intervals[m]; len(set) > 0 {
			b.lists = append(b.lists, set)
		}
	}
	for _, t := range b.split(b.lists[0]) {
		days[day{m, t.Date}] = figure{t.Total, t.Total}
	}
	if len(b.lists) == 1 {
		return
	}
	for _, set := range b.lists[1:] {
		for _, t := range b.split(set) {
			f := days[day{m, t.Date}]
			f.sum += t.Total
			days[day{m, t.Date}] = f
		}
	}
	var err error
	if b.merged, err = interval.Merge(b.merged[:0], b.lists...); err != nil {
		panic("union: a checked row is no set")
	}
	for _, t := range b.split(b.merged) {
		days[day{m, t.Date}] = figure{t.Total, days[day{m, t.Date}].sum}
	}
}

// split is the days of a set, valid until the next call.
func (b *Board) split(set []interval.Interval) []interval.PeriodTotal {
	b.totals = b.zone.Totals(b.totals[:0], set, interval.Day)
	return b.totals
}

// Forget says that nothing before an instant changes any more: that of a watermark,
// less lateness and cap. The days before that of the instant are final as they were
// published last, and what was counted in them is forgotten.
func (b *Board) Forget(before int64) {
	bound := b.zone.Start(b.zone.Date(before))
	if bound <= b.bound {
		return
	}
	b.bound = bound
	first := b.zone.Date(bound)
	maps.DeleteFunc(b.days, func(d day, _ Day) bool { return d.date < first })
	for name, u := range b.users {
		for k, r := range u.rows {
			r.intervals = b.after(r.intervals)
			u.rows[k] = r
		}
		maps.DeleteFunc(u.rows, func(_ ledger.SessionKey, r row) bool { return len(r.intervals) == 0 })
		maps.DeleteFunc(u.told, func(d day, _ figure) bool { return d.date < first })
		if len(u.rows) == 0 && !u.dirty {
			delete(b.users, name)
		}
	}
}

// Users is how many users the board holds.
func (b *Board) Users() int { return len(b.users) }
