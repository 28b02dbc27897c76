package explain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/explain"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

var update = flag.Bool("update", false, "write what is explained to testdata")

func TestMain(m *testing.M) {
	time.Local = time.UTC // the texts are in local time
	os.Exit(m.Run())
}

const second = time.Second

// looking is the state of a device that is open and not used.
var looking = edge.State{Foreground: true}

// TestSituations holds what is explained in each situation against testdata, and a sentence of it
// against what must be said.
func TestSituations(t *testing.T) {
	for name, s := range map[string]struct {
		query explain.Query
		make  func(f *e2e.Fabric, k *e2e.Keeper)
		says  []string
	}{
		"two devices": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			f.Connect(f.StartEdge("g1"), "ann", "phone").SetState(looking)
			f.At(5 * second)
			f.Connect(f.StartEdge("g2"), "ann", "laptop")
			f.At(90 * second)
		}, []string{`active since 2000-01-01 00:00:05 UTC: of 2 connected devices, "laptop" is the most active`}},

		"debounce": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			d := f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(90 * second)
			d.Close()
			f.At(98 * second)
		}, []string{"still shown active although no device is connected: the last one left (close) at 2000-01-01 00:01:30 UTC, and offline is published at 2000-01-01 00:01:50 UTC (in 12s) unless one comes back"}},

		"offline": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			d := f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(90 * second)
			d.Silence()
			f.At(300 * second)
		}, []string{"offline since 2000-01-01 00:02:", "no device is connected"}},

		"lease not renewed": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			g := f.StartEdge("g1")
			f.Connect(g, "ann", "phone")
			f.At(90 * second)
			g.Link.Cut()
			f.At(150 * second)
		}, []string{`active since 2000-01-01 00:00:01 UTC: "phone" is connected`, `"phone" is on edge "g1", which should have renewed its lease by now`}},

		"lease expired": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			g := f.StartEdge("g1")
			f.Connect(g, "ann", "phone")
			f.At(90 * second)
			g.Kill()
			f.At(200 * second)
		}, []string{"still shown active although no device is connected: the last one left (edge_crash)"}},

		"no keeper": {explain.Query{User: "ann", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			g := f.StartEdge("g1")
			f.Connect(g, "ann", "phone")
			f.At(90 * second)
			k.Kill()
			g.Kill()
			f.At(200 * second)
		}, []string{`"phone" is on edge "g1", whose lease ran out at 2000-01-01 00:0`, "the next tick of the keeper ends it, if a keeper runs",
			"what it is told is not known: shown as unknown: keeper_silent"}},

		"superseded": {explain.Query{User: "ann"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			g := f.StartEdge("g1")
			f.Connect(g, "ann", "phone")
			f.At(30 * second)
			g.Link.Freeze() // it does not hear of it
			f.Connect(f.StartEdge("g2"), "ann", "phone")
			f.At(31 * second)
		}, []string{`"phone" is connected`, `an older connection of "phone" on edge "g1" does not count`}},

		"invisible": {explain.Query{User: "ann", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(60 * second)
			f.Clerk().Do(subjects.PolicyStatus, "ann", subjects.PolicyRequest{Status: &subjects.ManualStatus{Availability: rollcall.Invisible}})
			f.At(70 * second)
		}, []string{"the user appears offline to everyone else since 2000-01-01 00:01:00 UTC, by its own wish",
			"viewer bob is neither a contact nor in a common group and may know what the fabric's default is for that; it is told offline"}},

		"blocked": {explain.Query{User: "ann", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.Clerk().Do(subjects.PolicyBlock, "ann", subjects.PolicyRequest{Users: []string{"bob"}})
			f.At(10 * second)
		}, []string{"viewer bob is blocked by ann, and is answered as if there were no such user; it is told nothing"}},

		"contact": {explain.Query{User: "ann", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			coarse := rollcall.Coarse
			clerk := f.Clerk()
			clerk.Do(subjects.PolicyContact, "ann", subjects.PolicyRequest{Users: []string{"bob"}})
			clerk.Do(subjects.PolicySet, "ann", subjects.PolicyRequest{Relations: subjects.Relations{Contact: &coarse}})
			f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(10 * second)
		}, []string{"viewer bob is a contact and may know coarse; it is told online"}},

		"member": {explain.Query{User: "ann", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			clerk := f.Clerk()
			for _, u := range []string{"ann", "bob"} {
				clerk.Do(subjects.PolicyJoin, u, subjects.PolicyRequest{Groups: []string{"team"}})
			}
			f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(10 * second)
		}, []string{"viewer bob shares a group and may know what the fabric's default is for that; it is told online, active"}},

		"unknown": {explain.Query{User: "nobody", Viewer: "bob"}, func(f *e2e.Fabric, k *e2e.Keeper) {
			f.Connect(f.StartEdge("g1"), "ann", "phone")
			f.At(10 * second)
		}, []string{"no keeper knows this user, and no state was ever published", "it is told nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				f := e2e.New(t, e2e.Options{Shards: 1})
				k := f.StartKeeper()
				f.StartFanout()
				f.At(second)
				s.make(f, k)
				report := ask(t, f, s.query)
				for _, want := range s.says {
					if !strings.Contains(strings.Join(report.Why, "\n"), want) {
						t.Errorf("it does not say %q:\n%s", want, strings.Join(report.Why, "\n"))
					}
				}
				golden(t, name, report)
			})
		})
	}
}

// TestExplainingChangesNothing: every stream is as it was, but for the ticks.
func TestExplainingChangesNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		f.StartFanout()
		f.Connect(f.StartEdge("g1"), "ann", "phone")
		f.At(31 * second)
		before := streams(t, f)
		ask(t, f, explain.Query{User: "ann", Viewer: "bob"})
		ask(t, f, explain.Query{User: "nobody"})
		f.Wait()
		if after := streams(t, f); !reflect.DeepEqual(before, after) {
			t.Errorf("%v, and before %v", after, before)
		}
	})
}

// TestLogIsSearchedBackwards: the newest frames come first out of a long log, in their order, and
// the report says how far it was read.
func TestLogIsSearchedBackwards(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		f.StartFanout()
		g := f.StartEdge("g1")
		ann := f.Connect(g, "ann", "phone")
		f.At(10 * second)
		for i := range 50 {
			ann.SetState([]edge.State{looking, e2e.Active}[i%2])
			f.Wait()
		}
		for range 2100 { // two strides of what says nothing of ann
			if _, err := f.JS.PublishAsync(f.Names.Log(0, "g9"), nil); err != nil {
				t.Fatal(err)
			}
		}
		<-f.JS.PublishAsyncComplete()
		f.At(20 * second)
		for _, c := range []struct {
			frames, messages, want int
			whole                  bool
		}{
			{20, 100_000, 20, true}, {200, 100_000, 51, true}, {20, 1000, 0, false}, {0, 100_000, 0, false},
		} {
			r := ask(t, f, explain.Query{User: "ann", Frames: c.frames, Messages: c.messages})
			if len(r.Frames) != c.want || r.Searched.Whole != c.whole {
				t.Errorf("asked for %d of %d messages: %d frames, %+v", c.frames, c.messages, len(r.Frames), r.Searched)
			}
			for i := 1; i < len(r.Frames); i++ {
				if r.Frames[i].Sequence <= r.Frames[i-1].Sequence {
					t.Fatalf("frame %d after %d", r.Frames[i].Sequence, r.Frames[i-1].Sequence)
				}
			}
		}
		f.At(2 * time.Hour)
		if r := ask(t, f, explain.Query{User: "ann", Frames: 20, Messages: 1_000_000}); len(r.Frames) != 0 || r.Searched.Whole {
			t.Errorf("two hours later: %d frames, %+v", len(r.Frames), r.Searched)
		}
	})
}

func ask(t *testing.T, f *e2e.Fabric, q explain.Query) explain.Report {
	t.Helper()
	q.Prefix, q.Back = subjects.DefaultPrefix, time.Hour
	if q.Messages == 0 {
		q.Frames, q.Messages = 20, 100_000
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*second)
	defer cancel()
	report, err := explain.Ask(ctx, lab.Connect(t, f.Server.NewLink()), q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
	return report
}

func golden(t *testing.T, name string, r explain.Report) {
	t.Helper()
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, text.Bytes()) {
		t.Errorf("%s says (%v)\n%s\nand now it is\n%s", path, err, want, &text)
	}
}

// streams are the last sequences of all streams.
func streams(t *testing.T, f *e2e.Fabric) map[string]uint64 {
	t.Helper()
	last := make(map[string]uint64)
	all := f.JS.ListStreams(t.Context())
	for info := range all.Info() {
		last[info.Config.Name] = info.State.LastSeq
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return last
}
