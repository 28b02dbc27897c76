package subjects_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

func day(date string, users int, seconds subjects.Seconds) []subjects.StatsToday {
	return []subjects.StatsToday{{Zone: "UTC", Date: date, Measures: map[string]subjects.StatsCount{"connected": {Users: users, Seconds: seconds}}}}
}

func TestMergeStats(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 1, 0, time.UTC)
	share := func(shard int, at time.Time, today []subjects.StatsToday) subjects.Stats {
		return subjects.Stats{AsOf: at, Shards: []int{shard}, ShardsTotal: 3, Online: 2, Active: 1, Definition: "1", Today: today}
	}
	old, a, b := share(2, at.Add(-2*time.Second), day("2026-11-30", 9, 9)), share(1, at, day("2026-12-01", 1, 1500)), share(0, at.Add(time.Second), day("2026-12-01", 2, 1))
	want := subjects.Stats{
		AsOf: old.AsOf, Shards: []int{0, 1, 2}, ShardsTotal: 3, Online: 6, Active: 3, Definition: "1", Today: day("2026-12-01", 3, 1501),
	}
	for _, order := range [][]subjects.Stats{{old, a, b}, {b, old, a}, {a, b, old}} {
		if got, err := subjects.MergeStats(order...); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if len(a.Today[0].Measures) != 1 || a.Today[0].Measures["connected"].Users != 1 {
		t.Error("merging changes what is merged")
	}
	other := share(1, at, nil)
	other.Definition = "2"
	for _, bad := range [][]subjects.Stats{{a, a}, {b, other}} {
		if _, err := subjects.MergeStats(bad...); !errors.Is(err, subjects.ErrStats) {
			t.Errorf("%v", err)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, text := range map[subjects.Seconds]string{0: "0.000", 1: "0.001", 1500: "1.500", 86_400_000 * 365 * 1000: "31536000000.000"} {
		b, err := json.Marshal(s)
		var back subjects.Seconds
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if string(b) != text || back != s || err != nil {
			t.Errorf("%d: %s, %d, %v", s, b, back, err)
		}
	}
}
