package trace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

const head = "t,user,device,edge,event\n"

func TestRead(t *testing.T) {
	events, err := Read(strings.NewReader("\ufeff" + head + "0,ann,d,g,open\n1.5,ann,d,g,idle\n2,,,g,edge_crash\n"))
	if err != nil || len(events) != 3 {
		t.Fatalf("%v, %v", events, err)
	}
	if e := events[1]; e != (Event{1500 * time.Millisecond, "ann", "d", "g", Idle}) {
		t.Errorf("%+v", e)
	}
	if users := Users(events); len(users) != 1 || users[0] != "ann" {
		t.Errorf("users %v", users)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                         "empty",
		"user,device\n":                            `not "user,device"`,
		head + "0,ann,d,g,open\n0,ann,d\n":         "fields",
		head + "x,ann,d,g,open\n":                  "line 2",
		head + "-1,ann,d,g,open\n":                 "not a number of seconds",
		head + "NaN,ann,d,g,open\n":                "not a number of seconds",
		head + "1e300,ann,d,g,open\n":              "counts from the start",
		head + "5,ann,d,g,open\n4,ann,d,g,close\n": "in order",
		head + "0,ann,d,g,leave\n":                 `"leave"`,
		head + "0,,d,g,open\n":                     "user",
		head + "0,ann,,g,open\n":                   "device",
		head + "0,ann,d,,open\n":                   "edge",
		head + "0,ann,d," + strings.Repeat("g", 129) + ",open\n": "129 bytes",
		head + "0,,,g,edge_crash\n1,ann,d,g,open\n":              "does not come back",
		head + "0,\"ann,d,g,open\n":                              "quote",
	} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", text, err, says)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(head + "0,ann,d,g,open\n9,ann,d,g,close\n")
	f.Add(head + "0,ann,d,g,open\n3,ann,d,g,silent\n9,,,g,edge_crash\n")
	f.Add("\ufeff" + head)
	f.Fuzz(func(t *testing.T, text string) {
		events, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		// Whatever can be read can be checked: an empty history breaks at most rule 2.
		for _, v := range Check(events, nil, rollcall.Default(), time.Hour, 0) {
			if v.Rule != 2 {
				t.Errorf("nothing was published, and %s", v)
			}
		}
	})
}

// at reads a history such as "ann online 0, ann offline 320"; versions count up.
func at(history string) (rows []Row) {
	for i, line := range strings.Split(history, ", ") {
		var user, status string
		var seconds float64
		fmt.Sscan(line, &user, &status, &seconds)
		rows = append(rows, Row{time.Duration(seconds * float64(time.Second)), user, rollcall.Status(status), uint64(i + 1)})
	}
	return rows
}

// broken lists the rules that a published history of an hour breaks.
func broken(t *testing.T, events, history string) (rules []int) {
	t.Helper()
	read, err := Read(strings.NewReader(head + events))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Check(read, at(history), rollcall.Default(), time.Hour, 0) {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, events, history string
		rules                 []int
	}{
		{"a close", "0,ann,d,g,open\n300,ann,d,g,close\n", "ann online 0, ann offline 320", nil},
		{"a close, told too early", "0,ann,d,g,open\n300,ann,d,g,close\n", "ann online 0, ann offline 319", []int{3}},
		{"a close, told too late", "0,ann,d,g,open\n300,ann,d,g,close\n", "ann online 0, ann offline 321", []int{2}},
		{"a close that is never told", "0,ann,d,g,open\n300,ann,d,g,close\n", "ann online 0", []int{2}},
		{"coming, told late", "5,ann,d,g,open\n", "ann online 6", []int{2}},
		{"coming, told before", "5,ann,d,g,open\n", "ann online 4", []int{1}},
		{"offline while there", "0,ann,d,g,open\n", "ann online 0, ann offline 100, ann online 101", []int{1}},
		{"back within the debounce", "0,ann,d,g,open\n300,ann,d,g,close\n310,ann,d,g,open\n", "ann online 0", nil},
		{"back within the debounce, told again", "0,ann,d,g,open\n300,ann,d,g,close\n310,ann,d,g,open\n", "ann online 0, ann online 310", []int{4}},
		{"silence", "0,ann,d,g,open\n300,ann,d,g,silent\n", "ann online 0, ann offline 365", nil},
		{"silence, told too early", "0,ann,d,g,open\n300,ann,d,g,silent\n", "ann online 0, ann offline 364", []int{3}},
		{"silence, told too late", "0,ann,d,g,open\n300,ann,d,g,silent\n", "ann online 0, ann offline 401", []int{2}},
		{"silence, then a close", "0,ann,d,g,open\n300,ann,d,g,silent\n310,ann,d,g,close\n", "ann online 0, ann offline 330", nil},
		{"silence, then a crash", "0,ann,d,g,open\n300,ann,d,g,silent\n310,,,g,edge_crash\n", "ann online 0, ann offline 480", nil},
		{"a crash", "0,ann,d,g,open\n300,,,g,edge_crash\n", "ann online 0, ann offline 475", nil},
		{"a crash, told too early", "0,ann,d,g,open\n300,,,g,edge_crash\n", "ann online 0, ann offline 403", []int{3}},
		{"the last of two", "0,ann,d,g,open\n0,ann,e,g,open\n100,ann,d,g,close\n110,ann,e,g,close\n", "ann online 0, ann offline 130", nil},
		{"the first of two", "0,ann,d,g,open\n0,ann,e,g,open\n100,ann,d,g,close\n110,ann,e,g,close\n", "ann online 0, ann offline 120", []int{3}},
		{"a crash that is noticed after the close of another", "0,ann,d,g,open\n0,ann,e,h,open\n100,,,g,edge_crash\n110,ann,e,h,close\n", "ann online 0, ann offline 275", nil},
		{"a move to another edge", "0,ann,d,g,open\n100,ann,d,h,open\n150,,,g,edge_crash\n", "ann online 0", nil},
		{"states", "0,ann,d,g,open\n100,ann,d,g,idle\n", "ann online 0, ann online 100", nil},
		{"unknown", "0,ann,d,g,open\n", "ann online 0, ann unknown 100, ann online 110", []int{1, 2}},
		{"a stranger", "0,ann,d,g,open\n", "ann online 0, bob online 5", []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := broken(t, tc.events, tc.history)
			if len(tc.rules) == 0 && len(rules) > 0 || len(tc.rules) > 0 && (len(rules) == 0 || rules[0] != tc.rules[0]) {
				t.Errorf("breaks rules %v, want %v", rules, tc.rules)
			}
		})
	}
}

func TestVersionsMustGrow(t *testing.T) {
	events, err := Read(strings.NewReader(head + "0,ann,d,g,open\n300,ann,d,g,close\n"))
	if err != nil {
		t.Fatal(err)
	}
	rows := at("ann online 0, ann offline 320")
	rows[1].Version = rows[0].Version
	if v := Check(events, rows, rollcall.Default(), time.Hour, 0); len(v) != 1 || v[0].Rule != 4 {
		t.Errorf("%v", v)
	}
}

// The checker must find what is wrong with a real history when a row is lost, put
// off, brought forward, or said twice.
func TestCheckFindsWhatIsDoneToARealHistory(t *testing.T) {
	file, err := os.Open("../../e2e/testdata/irc-netsplit-1d.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	events, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	length := events[len(events)-1].At + time.Hour
	right := ideal(events)
	if v := Check(events, right, rollcall.Default(), length, 0); len(v) > 0 {
		t.Fatalf("an ideal history breaks %v", v)
	}
	for i := range right {
		lost := append(append([]Row{}, right[:i]...), right[i+1:]...)
		if len(Check(events, lost, rollcall.Default(), length, 0)) == 0 {
			t.Errorf("row %d (%+v) is missing and nothing was found", i, right[i])
		}
		late := append([]Row{}, right...)
		late[i].At += 4 * time.Minute
		if late[i].Status == rollcall.StatusOnline && len(Check(events, late, rollcall.Default(), length, 0)) == 0 {
			t.Errorf("row %d (%+v) is late and nothing was found", i, right[i])
		}
	}
}

// ideal is a history by a fabric that notices everything at the earliest moment.
func ideal(events []Event) (rows []Row) {
	perUser, _ := stays(events, rollcall.Default())
	for _, user := range Users(events) {
		var version uint64
		say := func(at time.Duration, status rollcall.Status) {
			version++
			rows = append(rows, Row{at, user, status, version})
		}
		online, until := false, time.Duration(0)
		for _, s := range sorted(perUser[user]) {
			if online && until < s.from {
				say(until, rollcall.StatusOffline)
				online = false
			}
			if !online {
				say(s.from, rollcall.StatusOnline)
				online, until = true, 0
			}
			until = max(until, s.earliest)
		}
		if online && until != forever {
			say(until, rollcall.StatusOffline)
		}
	}
	return rows
}
