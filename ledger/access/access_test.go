package access

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const house = `
auditors: [olga]
analysts: [ann]
leads: {tom: support}
others: analyst
minimum: 7
zone: Europe/Berlin
teams:
  support: [u2, u1, u2]
  games: games.txt
`

func open(name string) (io.ReadCloser, error) {
	if name != "games.txt" {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader("u9\n\n u3 \r\nu9\n")), nil
}

func rules(t *testing.T, text string) Rules {
	t.Helper()
	r, err := Parse([]byte(text), open)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := rules(t, house)
	want := Rules{
		Accounts: map[string]Account{"olga": {Role: Auditor}, "ann": {Role: Analyst}, "tom": {Role: Lead, Team: "support"}},
		Others:   Analyst, Teams: map[string][]string{"support": {"u1", "u2"}, "games": {"u3", "u9"}}, Minimum: 7, Zone: "Europe/Berlin",
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v", r)
	}
	text, err := Format(r)
	if err != nil {
		t.Fatal(err)
	}
	if again := rules(t, string(text)); !reflect.DeepEqual(again, want) {
		t.Errorf("%+v of\n%s", again, text)
	}
	if r := rules(t, string(Template())); r.Minimum != DefaultMinimum || r.Zone != "UTC" {
		t.Errorf("the template: %+v", r)
	}
}

func TestRulesWithoutSense(t *testing.T) {
	for text, says := range map[string]string{
		"":                                      "the file is empty",
		"{}":                                    "nobody has a role",
		"auditor: [olga]":                       "field auditor not found",
		"analysts: [ann]":                       "no auditor",
		"auditors: [olga]\nanalysts: [olga]":    "olga has two roles",
		"auditors: ['']":                        "without a name",
		"auditors: [olga]\nleads: {tom: sales}": `tom leads "sales", which is no team`,
		"auditors: [olga]\nothers: lead":        "others can be",
		"auditors: [olga]\nminimum: 1":          "a group of one is a user",
		"auditors: [olga]\nzone: Mars/Base":     "Mars/Base",
		"auditors: [olga]\nteams: {x: no.txt}":  "team x: file does not exist",
		"auditors: [olga]\nteams: {x: {a: b}}":  "line 2",
		"auditors: [olga]\n---\na: b":           "more than one document",
	} {
		if _, err := Parse([]byte(text), open); !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReaders(t *testing.T) {
	r := rules(t, house)
	strict := r
	strict.Others = ""
	for _, c := range []struct {
		rules             Rules
		account, as, team string
		want              Role // empty for denied
	}{
		{Rules{}, "anybody", "", "", Auditor},
		{Rules{}, "anybody", "analyst", "", Analyst},
		{r, "olga", "", "", Auditor},
		{r, "olga", "analyst", "", Analyst},
		{r, "olga", "lead", "games", Lead},
		{r, "olga", "lead", "nobody", ""},
		{r, "ann", "", "", Analyst},
		{r, "ann", "analyst", "", Analyst},
		{r, "ann", "auditor", "", ""},
		{r, "tom", "", "", Lead},
		{r, "tom", "analyst", "", ""},
		{r, "eve", "", "", Analyst},
		{strict, "eve", "", "", ""},
	} {
		got, err := c.rules.Reader(c.account, Role(c.as), c.team)
		if c.want == "" && !errors.Is(err, ErrDenied) || c.want != "" && (err != nil || got.Role != c.want) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	if _, err := (Rules{}).Reader("anybody", "boss", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("a role that nobody knows: %v", err)
	}
	// Whoever tries the eyes of an analyst without rules must not see more than one.
	if eyes, _ := (Rules{}).Reader("anybody", Analyst, ""); eyes.Minimum != DefaultMinimum {
		t.Errorf("%+v", eyes)
	}
	// A lead stays with the own team, whatever is asked for.
	tom, err := r.Reader("tom", Lead, "games")
	if err != nil || tom.Team != "support" || !slices.Equal(tom.Users, []string{"u1", "u2"}) || tom.Sees("u1") != nil || !errors.Is(tom.Sees("u3"), ErrDenied) || tom.Exact() {
		t.Errorf("%+v, %v", tom, err)
	}
	ann, _ := r.Reader("ann", "", "")
	olga, _ := r.Reader("olga", "", "")
	if !errors.Is(ann.Sees("u1"), ErrDenied) || ann.Exact() || olga.Sees("u3") != nil || !olga.Exact() {
		t.Error("analyst and auditor")
	}
}
