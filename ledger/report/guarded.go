package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Other stands for what is left open, because too few users have it.
const Other = "other"

// levels are how much of a client is left open: nothing, the version, also the region,
// also the channel, all.
const levels = 5

func open(c ledger.Client, level int) ledger.Client {
	for k, field := range []*string{&c.Version, &c.Region, &c.Channel, &c.Type} {
		if k < level {
			*field = Other
		}
	}
	return c
}

// A profile is the clients with which a user was online on a day.
type profile []ledger.Client

func (p profile) at(level int) profile {
	opened := make(profile, len(p))
	for k, c := range p {
		opened[k] = open(c, level)
	}
	slices.SortFunc(opened, func(a, b ledger.Client) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Region, b.Region))
	})
	return slices.Compact(opened)
}

func (p profile) key() string { return fmt.Sprintf("%q", p) }

// A crowd is the users of a day with one profile. What they have differs by how much
// is left open: two versions of a client that ran at once are one client.
type crowd struct {
	profile profile
	users   int
	totals  [levels]map[string]int64
}

// guarded counts a question that has a minimum. It keeps figures for every day and profile.
type guarded struct {
	Query
	user  map[interval.Date][]store.Row // of the user at hand
	days  map[interval.Date]map[string]*crowd
	parts []interval.Part
	key   []byte
}

func newGuarded(q Query) *guarded {
	return &guarded{Query: q, user: map[interval.Date][]store.Row{}, days: map[interval.Date]map[string]*crowd{}}
}

func (g *guarded) add(row store.Row) {
	g.parts = g.Zone.Split(g.parts[:0], row.Interval, interval.Day)
	for _, p := range g.parts {
		row.Interval = p.Interval
		g.user[p.Date] = append(g.user[p.Date], row)
	}
}

func (g *guarded) endUser() {
	for date, rows := range g.user {
		var clients profile
		for _, r := range rows {
			clients = append(clients, r.Client)
		}
		clients = clients.at(0)
		c := g.crowd(date, clients)
		c.users++
		for level := range levels {
			g.count(c.totals[level], date, rows, level)
		}
	}
	clear(g.user)
}

func (g *guarded) crowd(date interval.Date, p profile) *crowd {
	if g.days[date] == nil {
		g.days[date] = map[string]*crowd{}
	}
	key := p.key()
	c := g.days[date][key]
	if c == nil {
		c = &crowd{profile: p}
		for level := range c.totals {
			c.totals[level] = map[string]int64{}
		}
		g.days[date][key] = c
	}
	return c
}

// count adds what a user has on a day.
func (g *guarded) count(totals map[string]int64, date interval.Date, rows []store.Row, level int) {
	groups := map[string][]interval.Interval{}
	for _, r := range rows {
		r.Client = open(r.Client, level)
		g.key = g.appendKey(g.key[:0], r)
		groups[string(g.key)] = append(groups[string(g.key)], r.Interval)
	}
	for key, list := range groups {
		for _, i := range g.counted(list) {
			totals[g.dated(key, date)] += i.Length()
		}
	}
}

// A release is crowds that together are enough, and how much of them is left open.
type release struct {
	key    string
	level  int
	users  int
	crowds []*crowd
}

func (r release) with(c *crowd) release {
	r.users += c.users
	r.crowds = append(r.crowds, c)
	return r
}

func (g *guarded) figures() map[string]int64 {
	totals := map[string]int64{}
	for _, crowds := range g.days {
		for _, r := range g.releases(crowds) {
			for _, c := range r.crowds {
				for key, total := range c.totals[r.level] {
					totals[key] += total
				}
			}
		}
	}
	return totals
}

// releases groups the crowds of a day.
func (g *guarded) releases(crowds map[string]*crowd) (enough []release) {
	left := slices.Collect(maps.Values(crowds))
	for level := range levels {
		groups := map[string]release{}
		for _, c := range left {
			key := c.profile.at(level).key()
			r, ok := groups[key]
			if !ok {
				r = release{key: key, level: level}
			}
			groups[key] = r.with(c)
		}
		left = nil
		for _, r := range groups {
			if r.users >= g.Minimum {
				enough = append(enough, r)
			} else {
				left = append(left, r.crowds...)
			}
		}
	}
	if len(left) == 0 || len(enough) == 0 {
		return enough
	}
	// Alone, they would be what a total has more than its parts.
	slices.SortFunc(enough, func(a, b release) int {
		return cmp.Or(cmp.Compare(a.users, b.users), cmp.Compare(a.level, b.level), strings.Compare(a.key, b.key))
	})
	last := &enough[0]
	last.level = levels - 1
	for _, c := range left {
		*last = last.with(c)
	}
	return enough
}
