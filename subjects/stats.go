package subjects

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Stats are what a ledger knows at the moment; it answers requests on [Names.Stats] with
// them.
type Stats struct {
	// AsOf is how far the raw events were read, in store time.
	AsOf time.Time `json:"as_of"`
	// Shards that are in the figures. Several ledgers can share a fabric: together they
	// have all of ShardsTotal.
	Shards      []int `json:"shards"`
	ShardsTotal int   `json:"shards_total"`
	// Online users have a connection; Active ones were active in the last five minutes.
	Online int `json:"online"`
	Active int `json:"active"`
	// Definition is that under which online time is counted.
	Definition string       `json:"definition"`
	Today      []StatsToday `json:"today"`
}

// StatsToday is the local day of a zone so far.
type StatsToday struct {
	Zone     string                `json:"zone"`
	Date     string                `json:"date"`
	Measures map[string]StatsCount `json:"measures"`
}

// StatsCount is how many users have any time of a measure, and how much together; a
// user with two devices at once counts once.
type StatsCount struct {
	Users   int     `json:"users"`
	Seconds Seconds `json:"seconds"`
}

// Seconds are milliseconds that are written as seconds with three decimals.
type Seconds int64

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// String has three decimals.
func (s Seconds) String() string { return strconv.FormatFloat(float64(s)/1000, 'f', 3, 64) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil {
		return err
	}
	*s = Seconds(math.Round(seconds * 1000))
	return nil
}

// ErrStats are figures that cannot be added up.
var ErrStats = errors.New("subjects: figures that do not belong together")

// DecodeStats reads figures.
func DecodeStats(b []byte) (Stats, error) {
	var s Stats
	err := decodeJSON(b, &s)
	return s, err
}

// MergeStats adds the figures of disjoint shards up; no user is in two of them. They are
// as old as the oldest. The day is that of the newest: where it differs it has just begun.
func MergeStats(all ...Stats) (sum Stats, err error) {
	sum.Shards, sum.Today = []int{}, []StatsToday{}
	for i, s := range all {
		if i == 0 {
			sum.AsOf, sum.ShardsTotal, sum.Definition = s.AsOf, s.ShardsTotal, s.Definition
		}
		for _, shard := range s.Shards {
			if slices.Contains(sum.Shards, shard) {
				return sum, fmt.Errorf("%w: shard %d twice", ErrStats, shard)
			}
		}
		if s.ShardsTotal != sum.ShardsTotal || s.Definition != sum.Definition {
			return sum, fmt.Errorf("%w: %d shards under definition %s, and %d under %s",
				ErrStats, sum.ShardsTotal, sum.Definition, s.ShardsTotal, s.Definition)
		}
		if s.AsOf.Before(sum.AsOf) {
			sum.AsOf = s.AsOf
		}
		sum.Shards = append(sum.Shards, s.Shards...)
		sum.Online += s.Online
		sum.Active += s.Active
		for _, t := range s.Today {
			sum.addToday(t)
		}
	}
	slices.Sort(sum.Shards)
	return sum, nil
}

func (s *Stats) addToday(t StatsToday) {
	i := slices.IndexFunc(s.Today, func(known StatsToday) bool { return known.Zone == t.Zone })
	if i < 0 {
		t.Measures = maps.Clone(t.Measures)
		s.Today = append(s.Today, t)
		return
	}
	known := &s.Today[i]
	switch cmp.Compare(known.Date, t.Date) {
	case -1:
		*known = t
		known.Measures = maps.Clone(t.Measures)
	case 0:
		for m, c := range t.Measures {
			was := known.Measures[m]
			known.Measures[m] = StatsCount{was.Users + c.Users, was.Seconds + c.Seconds}
		}
	}
}
