package interval

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
)

// The vectors in testdata come from outside the project. Their times are seconds.

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func millis(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

func seconds(s float64) time.Duration { return time.Duration(millis(s)) * time.Millisecond }

func intervalsOf(pairs [][2]float64) (list []Interval) {
	for _, p := range pairs {
		list = append(list, Interval{From: millis(p[0]), To: millis(p[1])})
	}
	return list
}

func TestUnionVectors(t *testing.T) {
	var vectors []struct {
		Name       string
		In, Union  [][2]float64
		Total, Sum float64
	}
	readVectors(t, "union.json", &vectors)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			in := intervalsOf(v.In)
			if got := Sum(in); got != millis(v.Sum) {
				t.Errorf("sum %d", got)
			}
			Sort(in)
			if got := Total(in); got != millis(v.Total) {
				t.Errorf("total %d", got)
			}
			if got := Union(in); !slices.Equal(got, intervalsOf(v.Union)) {
				t.Errorf("union %v", got)
			}
		})
	}
}

type gapsVector struct {
	Name           string
	Beats          []float64
	Close          *float64
	Cap, Grace     float64
	Intervals      [][2]float64
	Refused        bool
	TimeoutNoticed *float64 `json:"timeout_noticed"` // which nothing takes
}

func (v gapsVector) rule() Gaps { return Gaps{Cap: seconds(v.Cap), Grace: seconds(v.Grace)} }

func (v gapsVector) beats() (beats []int64) {
	for _, b := range v.Beats {
		beats = append(beats, millis(b))
	}
	return beats
}

func (v gapsVector) closed() int64 {
	if v.Close == nil {
		return maxInt64
	}
	return millis(*v.Close)
}

func TestGapsVectors(t *testing.T) {
	var vectors []gapsVector
	readVectors(t, "gaps.json", &vectors)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			b, err := NewBuilder(v.rule())
			if v.Refused {
				if !errors.Is(err, ErrRule) {
					t.Fatalf("not refused: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range v.beats() {
				if err := b.Beat(at); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Close(v.closed()); err != nil {
				t.Fatal(err)
			}
			want := intervalsOf(v.Intervals)
			if got := b.Intervals(nil); !slices.Equal(got, want) {
				t.Errorf("beat by beat %v, want %v", got, want)
			}
			if got, err := v.rule().OnlineUntil(nil, v.beats(), v.closed()); err != nil || !slices.Equal(got, want) {
				t.Errorf("at once %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestDaysVectors(t *testing.T) {
	var vectors []struct {
		Name, Zone string
		From, To   time.Time
		Days       map[string]int64
	}
	readVectors(t, "days.json", &vectors)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			i := Interval{From: v.From.UnixMilli(), To: v.To.UnixMilli()}
			z := zone(t, v.Zone)
			parts, totals := map[string]int64{}, map[string]int64{}
			for _, p := range z.Split(nil, i, Day) {
				parts[p.Date.String()] += p.Length() / 1000
			}
			for _, d := range z.Totals(nil, []Interval{i}, Day) {
				totals[d.Date.String()] += d.Total / 1000
			}
			if !reflect.DeepEqual(parts, v.Days) || !reflect.DeepEqual(totals, v.Days) {
				t.Errorf("split %v, totals %v, want %v", parts, totals, v.Days)
			}
		})
	}
}

// testZones keeps the calendars that tests have in common.
var testZones Zones

func zone(t testing.TB, name string) *Zone {
	t.Helper()
	z, err := testZones.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
