package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func about(users ...string) subjects.PolicyRequest { return subjects.PolicyRequest{Users: users} }

func everyone(g rollcall.Granularity) subjects.PolicyRequest {
	return subjects.PolicyRequest{Relations: subjects.Relations{Everyone: &g}}
}

func allow(g rollcall.Granularity, users ...string) subjects.PolicyRequest {
	return subjects.PolicyRequest{Users: users, Granularity: &g}
}

// everything is what was heard, with its instants and bytes, stream by stream: those of
// different shards go their own ways.
func everything(heard []e2e.Heard) (all []string) {
	slices.SortStableFunc(heard, func(a, b e2e.Heard) int { return a.Shard - b.Shard })
	for _, h := range heard {
		all = append(all, fmt.Sprintf("%s %s %s", h.At, h.Raw.Subject, h.Raw.Data))
	}
	return all
}

// wantSame fails if a story reads differently from another.
func wantSame(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("line %d of the stories tells them apart:\n%s\n%s", i, got[i], want[i])
		}
	}
}

// A viewer is blocked by a target: it hears, byte for byte and at the same instants,
// what it would if there were no such user.
func TestScenario30BlockedLooksLikeNobody(t *testing.T) {
	var stories [2][]string
	for i, exists := range []bool{true, false} {
		scenario(t, e2e.Options{}, func(t *testing.T, f *stage) { stories[i] = f.lookAtBlockers(exists) })
	}
	wantSame(t, stories[0], stories[1])
	if text := strings.Join(stories[0], "\n"); !strings.Contains(text, `"target":"ann"`) || strings.Contains(text, "bob") {
		t.Errorf("seen: %s", text)
	}
}

// lookAtBlockers returns all that vera receives about friends and users who have
// blocked her, if they exist.
func (f *stage) lookAtBlockers(exist bool) (story []string) {
	friends, blockers := []string{"ann", "carl"}, names("bob", 8)
	g := f.StartEdge("g1")
	devices := f.connectAll(g, friends)
	wire := f.Overhear("vera")
	var hidden []*e2e.Device
	if exist {
		clerk := f.Clerk()
		for _, b := range blockers {
			clerk.Do(subjects.PolicyBlock, b, about("vera"))
		}
		hidden = f.connectAll(f.StartEdge("g2"), blockers)
	}
	all := append(append(friends[:1:1], blockers...), "carl")
	ask := func(op subjects.Op, targets ...string) {
		story = append(story, wire.AskFor(op, body(targets...)))
	}
	f.At(50 * second)
	ask(subjects.OpGet, all...)
	ask(subjects.OpSubscribe, all...)
	for round := range 8 {
		f.At(time.Duration(100+100*round) * second)
		ask(subjects.OpRefresh)
		if round == 2 || round == 5 {
			devices[0].Close()
			for _, d := range hidden {
				d.Close()
			}
		}
		if round == 3 || round == 6 {
			devices[0] = f.Connect(g, "ann", "phone")
			if exist {
				hidden = f.connectAll(f.StartEdge(fmt.Sprint("g", 3+round)), blockers)
			}
		}
		f.At(f.Now() + 5*second)
		ask(subjects.OpGet, all...)
	}
	ask(subjects.OpUnsubscribe, blockers[0])
	ask(subjects.OpUnsubscribe)
	f.At(f.Now() + 10*second)
	return append(story, everything(wire.Heard())...)
}

// A target hides from everyone: viewers see unknown, and nothing moves them.
func TestScenario31HiddenTargetCausesNoMessages(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "bob")
		wire := f.Overhear("vera")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "bob", "phone")
		f.At(60 * second)
		f.Clerk().Do(subjects.PolicySet, "bob", everyone(rollcall.Hidden))
		f.At(70 * second)
		wantStatuses(t, v.RowsOf("bob"), "online unknown")
		if news := wire.News(); len(news) != 2 {
			t.Errorf("%d messages of changes, want online and unknown", len(news))
		}
		for range 5 {
			phone.Close()
			f.At(f.Now() + 60*second)
			phone = f.Connect(g, "bob", "phone")
			f.At(f.Now() + 10*second)
			say(t, phone, idle)
			f.At(f.Now() + 50*second)
		}
		if heard := wire.Heard(); len(heard) > 0 {
			t.Errorf("the comings and goings of who hides cause %v", everything(heard))
		}
		wantStatuses(t, v.RowsOf("bob"), "online unknown")
	})
}

// Only the minute of last seen changes: an exact viewer is told, a coarse one is not.
func TestScenario32CoarseViewerHearsNoMinutes(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		f.Clerk().Do(subjects.PolicyAllow, "bob", allow(rollcall.Coarse, "vera"))
		coarse, exact := f.StartViewer("vera", "bob"), f.StartViewer("eve", "bob")
		vera, eve := f.Overhear("vera"), f.Overhear("eve")
		phone := f.Connect(f.StartEdge("g1"), "bob", "phone")
		f.At(30 * second)
		phone.Close()
		f.At(100 * second)
		wantStatuses(t, coarse.RowsOf("bob"), "online recently")
		wantStatuses(t, exact.RowsOf("bob"), "online offline")
		vera.Heard()
		eve.Heard()
		record := f.ViewOf("bob")
		for range 5 {
			record.Seen += time.Minute.Microseconds()
			f.putView("bob", record)
			f.At(f.Now() + 10*second)
		}
		if news := eve.News(); len(news) != 5 || news[4].Changes[0].LastSeenMinute != subjects.MinuteOf(rollcall.Micros(record.Seen)) {
			t.Errorf("the exact viewer was told %v, want five minutes", news)
		}
		if heard := vera.Heard(); len(heard) > 0 {
			t.Errorf("the coarse viewer was told %v", everything(heard))
		}
	})
}

// putView changes what is published of a user.
func (f *stage) putView(user string, v *wire.View) {
	f.T.Helper()
	data, err := subjects.Encode(v)
	if err != nil {
		f.T.Fatal(err)
	}
	f.Publish(subjects.KVSubject(f.Names.ViewsBucket(f.Names.Shard(user)), subjects.KeyView(user)), data)
}

// A contact is removed: it hears that the target is withdrawn, and nothing after.
func TestScenario33RemovedContactHearsNothingMore(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		clerk := f.Clerk()
		clerk.Do(subjects.PolicySet, "bob", everyone(rollcall.Absent))
		clerk.Do(subjects.PolicyContact, "bob", about("vera"))
		v := f.StartViewer("vera", "bob")
		wire := f.Overhear("vera")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "bob", "phone")
		f.At(60 * second)
		clerk.Do(subjects.PolicyUncontact, "bob", about("vera"))
		f.At(70 * second)
		news := wire.News()
		if len(news) != 2 {
			t.Fatalf("told %v, want online and withdrawn", news)
		}
		last := news[1].Changes[0]
		if want := (subjects.View{Target: "bob", Status: subjects.StatusWithdrawn, Version: last.Version}); last != want {
			t.Errorf("told %+v, want nothing but %+v", last, want)
		}
		phone.Close()
		f.At(130 * second)
		f.Connect(g, "bob", "phone")
		clerk.Do(subjects.PolicyStatus, "bob", subjects.PolicyRequest{Status: &subjects.ManualStatus{Availability: rollcall.Away, Text: "lunch"}})
		clerk.Do(subjects.PolicyBlock, "bob", about("vera"))
		f.At(300 * second)
		if heard := wire.Heard(); len(heard) > 0 {
			t.Errorf("after the end: %v", everything(heard))
		}
		wantStatuses(t, v.RowsOf("bob"), "online "+string(subjects.StatusWithdrawn))
		if _, known := v.State("bob"); known {
			t.Error("bob is still shown")
		}
		if got, err := v.Get(t.Context(), "bob"); err != nil || len(got) > 0 {
			t.Errorf("asked once more: %v, %v", got, err)
		}
	})
}

// Of a long list of targets some exist and may not be seen: counts, order, sizes and
// refusals are those of a list in which they do not exist.
func TestScenario34InvisibleTargetsInAList(t *testing.T) {
	var stories [2][]string
	for i, exist := range []bool{true, false} {
		scenario(t, e2e.Options{Shards: 2}, func(t *testing.T, f *stage) {
			invisible, visible := names("i", 40), names("v", 10)
			f.connectAll(f.StartEdge("g1"), visible)
			wire := f.Overhear("vera")
			if exist {
				clerk := f.Clerk()
				for n, u := range invisible {
					switch n % 3 {
					case 0:
						clerk.Do(subjects.PolicyBlock, u, about("vera"))
					case 1:
						clerk.Do(subjects.PolicySet, u, everyone(rollcall.Absent))
					case 2:
						clerk.Do(subjects.PolicyAllow, u, allow(rollcall.Absent, "vera"))
					}
				}
				f.connectAll(f.StartEdge("g2"), invisible)
			}
			f.At(60 * second)
			var mixed []string
			for n, u := range invisible {
				mixed = append(mixed, u)
				if n < len(visible) {
					mixed = append(mixed, visible[n])
				}
			}
			many := append(names("n", 9_990-len(mixed)), mixed...)
			for _, request := range []struct {
				op      subjects.Op
				targets []string
			}{
				{subjects.OpGet, mixed}, {subjects.OpSubscribe, mixed}, {subjects.OpSubscribe, invisible}, {subjects.OpRefresh, nil},
				{subjects.OpSubscribe, many}, {subjects.OpSubscribe, names("x", 10)}, {subjects.OpSubscribe, []string{"one more"}},
				{subjects.OpGet, append(names("y", 9_951), mixed...)}, {subjects.OpSubscribe, append(mixed, "")},
				{subjects.OpUnsubscribe, invisible[:7]}, {subjects.OpUnsubscribe, invisible[:7]}, {subjects.OpRefresh, nil}, {subjects.OpUnsubscribe, nil},
			} {
				stories[i] = append(stories[i], wire.AskFor(request.op, body(request.targets...)))
			}
			f.At(70 * second)
			stories[i] = append(stories[i], everything(wire.Heard())...)
		})
	}
	wantSame(t, stories[0], stories[1])
	text := strings.Join(stories[0], "\n")
	for _, want := range []string{`"target":"v009"`, string(subjects.CodeTooManyTargets), string(subjects.CodeInvalidID)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the story", want)
		}
	}
}

// Viewers of different granularity watch one target: each sees its own kind only.
func TestScenario35EachGranularityItsOwnKind(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		clerk := f.Clerk()
		kinds := []struct {
			granularity rollcall.Granularity
			shown       string
			fields      []string
		}{
			{rollcall.Exact, "online offline online", []string{"state", "observed_at_minute", "last_seen_minute", "availability", "text"}},
			{rollcall.Coarse, "online recently online", nil},
			{rollcall.Hidden, "unknown", nil},
			{rollcall.Absent, "", nil},
		}
		var viewers []*e2e.Viewer
		var wires []*e2e.Raw
		for _, k := range kinds {
			name := "a " + k.granularity.String() + " viewer"
			clerk.Do(subjects.PolicyAllow, "bob", allow(k.granularity, name))
			wires = append(wires, f.Overhear(name))
			viewers = append(viewers, f.StartViewer(name, "bob"))
		}
		g := f.StartEdge("g1")
		phone := f.Connect(g, "bob", "phone")
		f.At(60 * second)
		say(t, phone, idle)
		clerk.Do(subjects.PolicyStatus, "bob", subjects.PolicyRequest{Status: &subjects.ManualStatus{Availability: rollcall.DoNotDisturb, Text: "lunch"}})
		f.At(120 * second)
		phone.Close()
		f.At(200 * second)
		f.Connect(g, "bob", "phone")
		f.At(260 * second)
		for i, k := range kinds {
			wantStatuses(t, viewers[i].RowsOf("bob"), k.shown)
			text := strings.Join(everything(wires[i].Heard()), "\n")
			for _, field := range kinds[0].fields {
				if want := slices.Contains(k.fields, field); strings.Contains(text, `"`+field+`"`) != want {
					t.Errorf("%s: %q in messages, want %v:\n%s", k.granularity, field, want, text)
				}
			}
		}
	})
}

// The feed to the fanout stalls for two minutes: views turn unknown with a reason, not
// offline, and are right again afterwards.
func TestScenario23StalledFeed(t *testing.T) {
	for name, stall := range map[string]struct {
		begin, end func(f *stage)
		reason     string
	}{
		"the keeper is gone": {
			func(f *stage) { f.keeper.Kill() }, func(f *stage) { f.keeper = f.StartKeeper() }, "keeper_silent",
		},
		"the keeper is cut off": {
			func(f *stage) { f.keeper.Link.Freeze() }, func(f *stage) { f.keeper.Link.Thaw() }, "keeper_silent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				users := names("u", 20)
				v := f.StartViewer("vera", users...)
				devices := f.connectAll(f.StartEdge("g1"), users)
				f.At(100 * second)
				stall.begin(f)
				devices[0].Close()
				f.At(130 * second)
				for _, u := range users {
					if s, _ := v.State(u); s.View.Status != rollcall.StatusUnknown || s.Reason != stall.reason {
						t.Errorf("%s is shown as %s %s", u, s.View.Status, s.Reason)
					}
				}
				f.At(220 * second)
				stall.end(f)
				f.At(300 * second)
				wantStatuses(t, v.RowsOf(users[0]), offlineAtLast(v.RowsOf(users[0])))
				for _, u := range users[1:] {
					wantStatuses(t, v.RowsOf(u), "online unknown online")
				}
			})
		})
	}
}

// offlineAtLast allows who left during a stall to be shown online once more.
func offlineAtLast(rows []trace.Row) string {
	if slices.ContainsFunc(rows[2:], func(r trace.Row) bool { return r.Status == rollcall.StatusOnline }) {
		return "online unknown online offline"
	}
	return "online unknown offline"
}

// Lists that are empty, too long or hold strange ids get a clear answer each.
func TestScenario29StrangeLists(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		strange := []string{"two words", "a.b..c.", "*", ">", "presence.>"}
		f.connectAll(f.StartEdge("g1"), strange)
		f.At(10 * second)
		wire := f.Overhear("vera")
		for _, row := range []struct {
			name    string
			targets []string
			want    subjects.Code
		}{
			{"empty", nil, subjects.CodeNoTargets},
			{"10,001", names("u", 10_001), subjects.CodeTooManyTargets},
			{"2 KB", []string{strings.Repeat("long", 512)}, subjects.CodeInvalidID},
		} {
			for _, op := range []subjects.Op{subjects.OpGet, subjects.OpSubscribe} {
				if _, code := wire.Ask(op, body(row.targets...)); code != row.want {
					t.Errorf("%s %s: %q, want %q", op, row.name, code, row.want)
				}
			}
		}
		reply, code := wire.Ask(subjects.OpSubscribe, body(strange...))
		seen := 0
		for _, s := range reply.Shards {
			for _, v := range s.Views {
				if v.Status == rollcall.StatusOnline && slices.Contains(strange, v.Target) {
					seen++
				}
			}
		}
		if code != "" || seen != len(strange) {
			t.Errorf("%d of %d strange ids are seen online (%s)", seen, len(strange), code)
		}
	})
}
