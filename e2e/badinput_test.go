package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Ids that every part must take, and such that every part must refuse.
var (
	goodIDs = []string{
		"a", strings.Repeat("a", 128), strings.Repeat("ä", 64), "*", ">", ".", "..", "a.b.*.>", " ", " a\tb\r\nc ", "\x00", "=", "=YQ", "--", "_",
		"$JS.API.STREAM.DELETE.x", "owner", "checkpoint", "tick", "日本語", "👩‍👩‍👧", "\u202eevil", "\ufeff", "\"\\'`;--", "<script>", "%20", "İ", "e\u0301",
	}
	badIDs = []string{"", strings.Repeat("a", 129), strings.Repeat("ä", 64) + "a", "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80"}
)

func TestEveryIDWorksFromEdgeToViewer(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		viewers, devices := make(map[string]*e2e.Viewer), make(map[string]*e2e.Device)
		for _, id := range goodIDs {
			viewers[id] = f.StartViewer(id, goodIDs...)
			devices[id] = f.Connect(f.StartEdge(id), id, id)
		}
		f.At(100 * second)
		for _, id := range goodIDs {
			if got := f.LeaseOf(id, id); got != id {
				t.Errorf("%q is held by %q", id, got)
			}
			devices[id].Close()
		}
		f.At(200 * second)
		for _, id := range goodIDs {
			for _, target := range goodIDs {
				wantStatuses(t, viewers[id].RowsOf(target), "online offline")
				if s, _ := viewers[id].State(target); s.View.LastSeenMinute != f.Minute(100*second) {
					t.Errorf("%q reads that %q was last seen at %s", id, target, s.View.LastSeenMinute.Time())
				}
			}
		}
		if s := f.keeper.Stats(); s.Malformed+s.Unregistered+s.Mismatches > 0 || s.Leases != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNoBadIDIsTaken(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		g, v, nc := f.StartEdge("g1"), f.StartViewer("vera", "ann"), lab.Connect(t, f.Server.NewLink())
		wire := f.Overhear("vera")
		for _, id := range badIDs {
			for _, ep := range []rollcall.Endpoint{{User: id, Device: "phone"}, {User: "ann", Device: id}} {
				if _, err := g.Node.Connect(ep.User, ep.Device, active); !errors.Is(err, rollcall.ErrID) {
					t.Errorf("connecting %q: %v, want %v", ep, err, rollcall.ErrID)
				}
			}
			if _, err := edge.New(nc, edge.Config{ID: id}); !errors.Is(err, edge.ErrConfig) || !errors.Is(err, rollcall.ErrID) {
				t.Errorf("edge %q: %v, want %v", id, err, edge.ErrConfig)
			}
			if _, err := viewer.New(nc, viewer.Config{Viewer: id}); !errors.Is(err, viewer.ErrConfig) {
				t.Errorf("viewer %q: %v, want %v", id, err, viewer.ErrConfig)
			}
			refusal := &subjects.Error{Code: subjects.CodeInvalidID}
			if err := v.Watch(t.Context(), "ann", id); !errors.Is(err, refusal) {
				t.Errorf("watching %q: %v, want %s", id, err, refusal.Code)
			}
			if _, err := v.Get(t.Context(), id); !errors.Is(err, refusal) {
				t.Errorf("getting %q: %v, want %s", id, err, refusal.Code)
			}
			if err := v.Unwatch(t.Context(), id); !errors.Is(err, refusal) {
				t.Errorf("leaving %q: %v, want %s", id, err, refusal.Code)
			}
			if id == "" {
				continue // a subject cannot end in a dot
			}
			if _, code := wire.AskAt(f.Names.Request(subjects.OpGet, id), body("ann")); code != subjects.CodeInvalidRequest {
				t.Errorf("asking as %q: %q", id, code)
			}
		}
		f.Connect(g, "ann", "phone")
		f.At(f.Now() + second)
		wantStatuses(t, v.RowsOf("ann"), "online")
	})
}

// body is a request for targets.
func body(targets ...string) []byte {
	b, err := json.Marshal(subjects.Request{Targets: targets})
	if err != nil {
		panic(err)
	}
	return b
}

// A frame as an edge of the name would send it.
func frame(t *testing.T, number uint64, entries ...*wire.Entry) []byte {
	t.Helper()
	b, err := subjects.EncodeFrame(&wire.Frame{Version: subjects.WireVersion, Incarnation: 7, Number: number, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(user string, epoch int64) *wire.Entry {
	return &wire.Entry{Kind: wire.Kind_KIND_OPEN, Conn: 1, User: user, Device: "phone", Epoch: epoch, At: epoch, State: wire.State_STATE_ACTIVE}
}

// garbage is what no decoder takes.
func garbage(t *testing.T) map[string][]byte {
	random := rand.New(rand.NewPCG(3, 3))
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	whole := frame(t, 1, &wire.Entry{Kind: wire.Kind_KIND_HELLO}, open("ann", 1), open("bob", 1))
	many := make([]*wire.Entry, subjects.MaxEntries+1)
	for i := range many {
		many[i] = &wire.Entry{Kind: wire.Kind_KIND_RENEW}
	}
	odd := func(change func(*wire.Entry)) []byte {
		e := open("ann", 1)
		change(e)
		return frame(t, 1, &wire.Entry{Kind: wire.Kind_KIND_HELLO}, e)
	}
	unknown, err := subjects.EncodeFrame(&wire.Frame{Version: subjects.WireVersion + 1, Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"nothing": {}, "noise": noise, "zeros": make([]byte, 100), "text": []byte(`{"version":1}`),
		"truncated": whole[:len(whole)-3], "half": whole[:len(whole)/2], "unknown version": unknown,
		"1,001 entries": frame(t, 1, many...), "too large": bytes.Repeat([]byte{0}, subjects.MaxFrameBytes+1),
		"no user":       odd(func(e *wire.Entry) { e.User = "" }),
		"long device":   odd(func(e *wire.Entry) { e.Device = strings.Repeat("d", 129) }),
		"no such state": odd(func(e *wire.Entry) { e.State = 99 }),
		"long activity": odd(func(e *wire.Entry) { e.Activity = strings.Repeat("x", 65) }),
		"no UTF-8":      bytes.Replace(whole, []byte("ann"), []byte("a\xffn"), 1),
	}
}

// settled is a fabric with ann and bob on g1, of whom nobody may go offline.
func (f *stage) settled() (v *e2e.Viewer, g *e2e.Edge, ann *e2e.Device) {
	f.T.Helper()
	v, g = f.StartViewer("vera", "ann", "bob"), f.StartEdge("g1")
	ann = f.Connect(g, "ann", "phone")
	f.Connect(g, "bob", "phone")
	f.At(100 * second)
	return v, g, ann
}

// wantWhole fails unless nobody was shown offline, and everything works as ever.
func (f *stage) wantWhole(v *e2e.Viewer, g *e2e.Edge, ann *e2e.Device) {
	f.T.Helper()
	f.At(f.Now() + f.Params.Bounds().EdgeCrash.Latest)
	for _, r := range v.Rows() {
		if r.Status == rollcall.StatusOffline {
			f.T.Errorf("%s was shown offline at %s", r.User, r.At)
		}
	}
	for _, u := range []string{"ann", "bob"} {
		if got := v.Status(u); got != rollcall.StatusOnline {
			f.T.Errorf("%s is shown as %q", u, got)
		}
	}
	ann.Close()
	f.Connect(g, "carol", "phone")
	f.At(f.Now() + f.Params.Debounce)
	f.wantWatched(v, map[string]rollcall.Status{"ann": "offline", "bob": "online", "carol": "online"})
	f.keeper.Kill() // the next reads the same log again
	f.keeper = f.StartKeeper()
	f.At(f.Now() + f.Params.Bounds().EdgeCrash.Latest)
	f.wantWatched(v, map[string]rollcall.Status{"ann": "offline", "bob": "online", "carol": "online"})
}

func (f *stage) wantWatched(v *e2e.Viewer, want map[string]rollcall.Status) {
	f.T.Helper()
	for u, status := range want {
		got, err := v.Get(f.T.Context(), u)
		if err != nil || got[u].View.Status != status {
			f.T.Errorf("%s is %q (%v), want %s", u, got[u].View.Status, err, status)
		}
	}
}

func TestGarbageInTheLog(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v, g, ann := f.settled()
		shard := f.Names.Shard("ann")
		count := uint64(0)
		samples := garbage(t)
		for _, name := range slices.Sorted(maps.Keys(samples)) {
			data := samples[name]
			for _, edge := range []string{"ghost", "g1"} {
				if edge == "g1" && name == "unknown version" {
					continue // a newer process under the same id: g1 would rightly give up
				}
				f.Publish(f.Names.Log(shard, edge), data)
				count++
			}
		}
		for _, subject := range []string{f.Names.Log(shard, "x") + "!", strings.TrimSuffix(f.Names.Log(shard, "x"), "x") + "=*"[:1]} {
			f.Publish(subject, frame(t, 1, open("ann", 1)))
			count++
		}
		f.Wait()
		if got := f.keeper.Stats().Malformed; got != count {
			t.Errorf("malformed = %d, want %d", got, count)
		}
		f.wantWhole(v, g, ann)
	})
}

func TestNonsenseInTheLog(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []*wire.Entry
		count   func(*stage) uint64
		want    uint64
	}{
		"an edge that never registered": {
			[]*wire.Entry{open("ann", 1), open("dora", 1), {Kind: wire.Kind_KIND_RENEW, Count: 5}, {Kind: wire.Kind_KIND_LEAVE}},
			func(f *stage) uint64 { return f.keeper.Stats().Unregistered }, 4},
		"unknown kinds": {
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, {Kind: 77}, {Kind: -1}, {Kind: wire.Kind_KIND_UNSPECIFIED}, {Kind: wire.Kind_KIND_TICK}},
			func(f *stage) uint64 { return f.keeper.Stats().Ignored }, 4},
		"connections that nobody knows": {
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, {Kind: wire.Kind_KIND_CLOSE, Conn: 1, User: "ann", Device: "phone"},
				{Kind: wire.Kind_KIND_STATE, Conn: math.MaxUint64, User: "ann", Device: "phone"}},
			func(f *stage) uint64 { return f.keeper.Stats().Ignored }, 2},
		"absurd epochs": { // those of the future are now; those of the past are none
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, open("dora", math.MaxInt64), open("emil", math.MinInt64), open("ann", -1), open("fred", 0)},
			func(f *stage) uint64 { return f.keeper.Stats().Clamped }, 3},
		"absurd ends": {
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, open("dora", 1),
				{Kind: wire.Kind_KIND_CLOSE, Conn: 1, User: "dora", Device: "phone", At: math.MaxInt64, Seen: math.MinInt64}},
			func(f *stage) uint64 { return f.keeper.Stats().Clamped }, 2},
		"an absurd renewal": {
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, {Kind: wire.Kind_KIND_RENEW, Count: math.MaxUint64, Digest: math.MaxUint64}},
			func(f *stage) uint64 { return f.keeper.Stats().Mismatches }, 1},
		"a roster that never began": {
			[]*wire.Entry{{Kind: wire.Kind_KIND_HELLO}, open("dora", 1), {Kind: wire.Kind_KIND_ROSTER_END}},
			func(f *stage) uint64 { return f.keeper.Stats().Repaired }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) {
				v, g, ann := f.settled()
				before := tc.count(f)
				f.Publish(f.Names.Log(0, "ghost"), frame(t, 1, tc.entries...))
				f.Wait()
				if got := tc.count(f) - before; got != tc.want {
					t.Errorf("counted %d, want %d", got, tc.want)
				}
				f.wantWhole(v, g, ann)
				if view := f.ViewOf("dora"); view != nil && (view.Seen < 0 || f.Since(rollcall.Micros(view.Seen)) > f.Now()) {
					t.Errorf("dora was seen at %d", view.Seen)
				}
			})
		})
	}
}

func TestGarbageToEdgeAndFanout(t *testing.T) {
	scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) {
		v, g, ann := f.settled()
		nc := lab.Connect(t, f.Server.NewLink())
		send := func(subject string, data []byte) {
			if err := nc.Publish(subject, data); err != nil {
				t.Fatal(err)
			}
		}
		control := func(c *wire.Control) []byte {
			c.Version = subjects.WireVersion
			b, err := subjects.EncodeControl(c)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		incarnation := f.UserOf("ann").Endpoints[0].Current.Incarnation
		malformed := map[string][]byte{
			"no such shard": control(&wire.Control{Kind: wire.Control_KIND_RESYNC, Shard: math.MaxUint32, Incarnation: incarnation}),
			"no such kind":  control(&wire.Control{Kind: 77, Incarnation: incarnation}),
			"nothing":       {}, "noise": garbage(t)["noise"], "text": []byte("resync"),
		}
		for _, data := range malformed {
			send(f.Names.EdgeControl("g1"), data)
		}
		for _, c := range []*wire.Control{
			{Kind: wire.Control_KIND_SUPERSEDED, Incarnation: incarnation + 1, Conns: []uint64{ann.Number()}},
			{Kind: wire.Control_KIND_UNREGISTERED, Incarnation: incarnation - 1},
			{Kind: wire.Control_KIND_SUPERSEDED, Incarnation: incarnation, Conns: []uint64{0, math.MaxUint64}},
			{Kind: wire.Control_KIND_RESYNC, Incarnation: incarnation},
			{Kind: wire.Control_KIND_UNREGISTERED, Incarnation: incarnation},
		} {
			send(f.Names.EdgeControl("g1"), control(c))
		}
		foreign, err := subjects.Encode(&wire.Pulse{Shard: 5, Generation: math.MaxUint64, Revision: math.MaxUint64})
		if err != nil {
			t.Fatal(err)
		}
		outdated, err := subjects.Encode(&wire.Pulse{Generation: 0, Revision: math.MaxUint64})
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{garbage(t)["noise"], []byte("pulse"), foreign, outdated} {
			send(f.Names.Pulse(0), data)
		}
		f.At(f.Now() + second)
		if got := g.Stats().Malformed; got != uint64(len(malformed)) {
			t.Errorf("the edge counted %d malformed control messages, want %d", got, len(malformed))
		}
		if got := g.Superseded(); len(got) > 0 {
			t.Errorf("superseded: %v", got)
		}
		f.At(f.Now() + 60*second)
		if rows := v.Rows(); len(rows) != 2 {
			t.Errorf("shown %v, want nothing new", rows)
		}
		f.wantWhole(v, g, ann)
	})
}

// Records that nobody can read lie in the buckets when keeper and fanout take over:
// they are skipped, and repaired from what the edges hold.
func TestGarbageRecordsAtTakeover(t *testing.T) {
	for _, victims := range []string{"strangers", "ann", "owners"} {
		t.Run(victims, func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) {
				v, g, ann := f.settled()
				f.keeper.Kill()
				f.fanout.Kill()
				leases, views, interests := f.Names.LeasesBucket(0), f.Names.ViewsBucket(0), f.Names.InterestBucket(0)
				records := map[string][]string{
					"strangers": {leases + " user.zoe", leases + " edge.zoe", leases + " nonsense", leases + " user.=.x", views + " view.zoe",
						views + " policy.zoe", views + " x.y.z", interests + " " + subjects.KeyInterest("zoe", 0), interests + " nonsense"},
					"ann": {leases + " " + subjects.KeyUser("ann"), leases + " " + subjects.KeyEdge("g1"), leases + " " + subjects.KeyCheckpoint,
						views + " " + subjects.KeyView("ann"), interests + " " + subjects.KeyInterest("vera", 0)},
					"owners": {leases + " " + subjects.KeyOwner, views + " " + subjects.KeyOwner, interests + " " + subjects.KeyOwner, f.Names.CohortBucket("keeper") + " " + subjects.KeyShard(0)},
				}
				for _, record := range records[victims] {
					var bucket, key string
					fmt.Sscan(record, &bucket, &key)
					f.Publish(subjects.KVSubject(bucket, key), garbage(t)["noise"])
				}
				f.keeper, f.fanout = f.StartKeeper(), f.StartFanout()
				f.At(f.Now() + f.Params.LongestRenewal() + f.Params.Debounce)
				if s := f.keeper.Stats(); s.Connections != 2 || s.Online != 2 {
					t.Errorf("the keeper knows %d connections, %d online, want 2 of each", s.Connections, s.Online)
				}
				f.wantWhole(v, g, ann)
			})
		})
	}
}

func TestBadRequestsOverTheWire(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v, g, ann := f.settled()
		wire := f.Overhear("walter")
		for _, op := range subjects.Ops {
			needed, checked := subjects.CodeNoTargets, func(c subjects.Code) subjects.Code { return c }
			switch op {
			case subjects.OpUnsubscribe:
				needed = ""
			case subjects.OpRefresh: // has no body
				needed, checked = "", func(subjects.Code) subjects.Code { return "" }
			}
			for _, tc := range []struct {
				name string
				body []byte
				want subjects.Code
			}{
				{"no body", nil, needed},
				{"0 targets", body(), needed},
				{"1 target", body("ann"), ""},
				{"10,000 targets", body(names("u", 10_000)...), ""},
				{"10,001 targets", body(names("u", 10_001)...), checked(subjects.CodeTooManyTargets)},
				{"no JSON", []byte(`{"targets":["ann"]`), checked(subjects.CodeInvalidRequest)},
				{"wrong shape", []byte(`["ann"]`), checked(subjects.CodeInvalidRequest)},
				{"no UTF-8", []byte("{\"targets\":[\"\xff\"]}"), checked(subjects.CodeInvalidRequest)},
				{"half a surrogate", []byte(`{"targets":["\ud800"]}`), checked(subjects.CodeInvalidRequest)},
				{"an empty id", body("ann", ""), checked(subjects.CodeInvalidID)},
				{"129 bytes", body(strings.Repeat("a", 129)), checked(subjects.CodeInvalidID)},
				{"2 KB", body(strings.Repeat("a b.*>", 350)), checked(subjects.CodeInvalidID)},
			} {
				if _, code := wire.Ask(op, tc.body); code != tc.want {
					t.Errorf("%s with %s: %q, want %q", op, tc.name, code, tc.want)
				}
				if op == subjects.OpSubscribe {
					wire.Ask(subjects.OpUnsubscribe, nil)
				}
			}
		}
		f.wantWhole(v, g, ann)
	})
}
