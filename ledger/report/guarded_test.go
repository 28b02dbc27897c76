package report

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// spell is how long a user was online with a client on a day, at an hour of its own.
type spell struct {
	user, day int
	client    ledger.Client
	minutes   int64
}

const firstDay = 20_500

func rowsOf(spells []spell) (rows list) {
	hours := map[[2]int]int64{}
	for _, s := range spells {
		hour := hours[[2]int{s.user, s.day}]
		hours[[2]int{s.user, s.day}]++
		from := int64(firstDay+s.day)*24*60*minute + hour*60*minute
		rows = append(rows, store.Row{User: fmt.Sprintf("u%02d", s.user), Client: s.client, Interval: interval.Interval{From: from, To: from + s.minutes*minute}})
	}
	slices.SortStableFunc(rows, func(a, b store.Row) int { return slices.Compare([]string{a.User}, []string{b.User}) })
	return rows
}

// everyQuestion is all that an analyst can ask about three days.
func everyQuestion(t *testing.T, minimum int) (all []Query) {
	z := zone(t, "UTC")
	clients := []Column{Client, Version, Channel, Region}
	for mask := range 16 {
		for _, by := range [][]Column{nil, {Day}} {
			for k, c := range clients {
				if mask>>k&1 == 1 {
					by = append(slices.Clone(by), c)
				}
			}
			for from := range 3 {
				bounds := interval.Interval{From: z.Start(interval.Date(firstDay + from)), To: z.Start(firstDay + 3)}
				all = append(all, Query{Measure: ledger.Connected, Zone: z, By: by, Minimum: minimum, Bounds: bounds})
			}
		}
	}
	return all
}

func answers(t *testing.T, questions []Query, spells []spell) (all [][]Row) {
	t.Helper()
	rows := rowsOf(spells)
	for _, q := range questions {
		answer, err := Run(t.Context(), rows, q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, answer)
	}
	return all
}

// The guarantee, by brute force: whatever an analyst asks and computes, a minute of any
// user's day could as well be another's, of at least minimum − 1 others; or it shows
// nowhere.
func TestNoAnswerLeadsToFewerUsers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	const minimum = 3
	questions := everyQuestion(t, minimum)
	hidden, mixed, rounds := 0, 0, 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		var spells []spell
		pick := func(names ...string) string { return names[rnd.IntN(len(names))*rnd.IntN(2)] } // the first more often
		for user := range 7 {
			for day := range 3 {
				if day == 2 && user >= minimum-1 {
					continue // too few
				}
				for range rnd.IntN(3) {
					c := ledger.Client{Type: pick("web", "ios"), Version: pick("1", "2", "3"), Channel: pick("", "beta"), Region: pick("eu", "us")}
					spells = append(spells, spell{user, day, c, int64(5 + rnd.IntN(50))})
				}
			}
		}
		asked := answers(t, questions, spells)
		same := func(from, to int) bool { // if a minute had been another's
			spells[from].minutes--
			if to >= 0 {
				spells[to].minutes++
			}
			got := answers(t, questions, spells)
			spells[from].minutes++
			if to >= 0 {
				spells[to].minutes--
			}
			return reflect.DeepEqual(got, asked)
		}
		for from, s := range spells {
			if same(from, -1) {
				hidden++
				continue
			}
			crowd := map[int]bool{s.user: true}
			for to, other := range spells {
				if other.day == s.day && !crowd[other.user] && same(from, to) {
					crowd[other.user] = true
				}
			}
			if len(crowd) < minimum {
				t.Errorf("day %d of user %d with %v hides among %d users only: %v", s.day, s.user, s.client, len(crowd), spells)
			}
			mixed++
		}
	}
	if hidden == 0 || mixed < 10 {
		t.Errorf("%d hidden, %d mixed: the histories show nothing", hidden, mixed)
	}
}

// Where all are many, a minimum changes nothing.
func TestCrowdsShowAsTheyAre(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	var rows list
	for n := range 6 {
		for _, r := range random(rand.New(rand.NewPCG(1, 1)), 1_700_000_000_000) {
			if r.User == "ann" { // six of her
				r.User = fmt.Sprint("ann", n)
				rows = append(rows, r)
			}
		}
	}
	for range 60 {
		q := Query{Measure: ledger.Connected, Zone: zone(t, "Europe/Berlin"), Sum: rnd.IntN(2) == 0, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}
		for _, c := range []Column{Client, Version, Channel, Region, Day, Week, Month} {
			if rnd.IntN(3) == 0 {
				q.By = append(q.By, c)
			}
		}
		want, err := Run(t.Context(), rows, q)
		if err != nil {
			t.Fatal(err)
		}
		q.Minimum = 6
		if got, err := Run(t.Context(), rows, q); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v sum %v: %v, %v, want %v", q.By, q.Sum, got, err, want)
		}
		q.Minimum = 7
		if got, err := Run(t.Context(), rows, q); err != nil || len(got) > 1 || len(got) == 1 && got[0].Total != 0 {
			t.Fatalf("of six, where seven are needed: %v, %v", got, err)
		}
	}
}

func TestOthers(t *testing.T) {
	of := func(user int, client, version string) spell {
		return spell{user: user, client: ledger.Client{Type: client, Version: version}, minutes: 10}
	}
	for name, c := range map[string]struct {
		spells []spell
		by     []Column
		want   []Row
	}{
		"too few in all":               {[]spell{of(1, "web", "1"), of(2, "web", "1")}, nil, []Row{{[]string{}, 0}}},
		"enough":                       {[]spell{of(1, "web", "1"), of(2, "web", "1"), of(3, "web", "1")}, []Column{Version}, []Row{{[]string{"1"}, 30 * minute}}},
		"the version is left open":     {[]spell{of(1, "web", "1"), of(2, "web", "1"), of(3, "web", "2")}, []Column{Client, Version}, []Row{{[]string{"web", Other}, 30 * minute}}},
		"one would be alone in others": {[]spell{of(1, "web", "1"), of(2, "web", "1"), of(3, "web", "1"), of(4, "ios", "1")}, []Column{Client}, []Row{{[]string{Other}, 40 * minute}}},
		"the smallest joins": {
			[]spell{of(1, "web", "1"), of(2, "web", "1"), of(3, "web", "1"), of(4, "tv", "1"), of(5, "tv", "1"), of(6, "tv", "1"), of(7, "tv", "1"), of(8, "ios", "1")}, []Column{Client},
			[]Row{{[]string{Other}, 40 * minute}, {[]string{"tv"}, 40 * minute}},
		},
	} {
		q := Query{Measure: ledger.Connected, Zone: zone(t, "UTC"), By: c.by, Minimum: 3, Bounds: interval.Interval{From: interval.Earliest, To: interval.Latest}}
		if got, err := Run(t.Context(), rowsOf(c.spells), q); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestGuardedQuestions(t *testing.T) {
	z := zone(t, "Europe/Berlin")
	whole := interval.Interval{From: z.Start(20_000), To: interval.Latest}
	for _, q := range []Query{
		{By: []Column{User}, Bounds: whole}, {By: []Column{Day, Device}, Bounds: whole}, {User: "ann", Bounds: whole},
		{Bounds: interval.Interval{From: whole.From + 1, To: whole.To}}, {Bounds: interval.Interval{From: whole.From, To: z.Start(20_001) - 1}},
	} {
		q.Measure, q.Zone, q.Minimum = ledger.Connected, z, 5
		if _, err := Run(t.Context(), list{}, q); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
