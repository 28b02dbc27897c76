package e2e_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

var onlineTime = ledger.Definition{
	Version: "1", Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second},
	Idle: 5 * time.Minute, Limit: 7 * 24 * time.Hour, Lateness: time.Hour,
}

// books are the rows and refusals of all shards.
type books struct {
	t        *testing.T
	rows     map[ledger.SessionKey]ledger.Session
	rejected []string
	beats    int
}

func newBooks(t *testing.T) *books {
	return &books{t: t, rows: make(map[ledger.SessionKey]ledger.Session)}
}

func (k *books) row(s ledger.Session, _ bool) {
	if k.rows[s.Key()] = s; len(s.Intervals) == 0 {
		delete(k.rows, s.Key()) // withdrawn
	}
}

func (k *books) reject(r ledger.Rejected) {
	text, err := json.Marshal(r)
	if err != nil {
		k.t.Error(err)
	}
	k.rejected = append(k.rejected, string(text))
}

// rebuild makes the books from the streams.
func rebuild(t *testing.T, f *e2e.Fabric, d ledger.Definition) *books {
	t.Helper()
	k := newBooks(t)
	for shard := range f.Names.Shards() {
		b, err := session.New(session.Config{Definition: d, Session: k.row, Reject: k.reject})
		if err != nil {
			t.Fatal(err)
		}
		decoder := raw.New(f.Names.Names, d.Lateness, raw.Into(b, k.reject))
		err = raw.Follow(t.Context(), f.JS, f.Names.Names, shard, raw.Position{}, func(s raw.Step) error {
			for _, m := range s.Msgs {
				decoder.Add(m)
				if m.Beats {
					_, list, _ := subjects.DecodeBeats(m.Data)
					k.beats += len(list)
				}
			}
			b.Advance(s.Watermark)
			if s.Ended {
				return raw.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Publish()
	}
	return k
}

// openLedger opens a store for the ledger of a test.
func openLedger(t *testing.T) *store.SQL {
	t.Helper()
	s, err := store.Open(t.Context(), ledgerPlace(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// stored reads the books of a store.
func stored(t *testing.T, s store.Store, version string) *books {
	t.Helper()
	k := newBooks(t)
	for row, err := range s.Sessions(t.Context(), store.Query{Definition: version, Bounds: always}) {
		if err != nil {
			t.Fatal(err)
		}
		k.row(row, true)
	}
	for r, err := range s.Quarantined(t.Context(), store.QuarantineQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Definition == version {
			k.reject(r.Rejected)
		}
	}
	return k
}

var always = interval.Interval{From: interval.Earliest, To: interval.Latest}

// mustEqual compares rows to the millisecond, revisions included, and the quarantines.
func (k *books) mustEqual(live *books) {
	k.t.Helper()
	for id, want := range k.rows {
		got, _ := json.Marshal(live.rows[id])
		if want, _ := json.Marshal(want); string(got) != string(want) {
			k.t.Errorf("live    %s\nrebuilt %s", got, want)
		}
	}
	if len(live.rows) != len(k.rows) {
		k.t.Errorf("%d live sessions, %d rebuilt", len(live.rows), len(k.rows))
	}
	slices.Sort(k.rejected)
	slices.Sort(live.rejected)
	if !slices.Equal(live.rejected, k.rejected) {
		k.t.Errorf("live quarantine %d: %v\nrebuilt %d: %v", len(live.rejected), live.rejected, len(k.rejected), k.rejected)
	}
}

func (k *books) total(m ledger.Measure) (sum time.Duration) {
	byUser := make(map[string][]interval.Interval)
	for _, s := range k.rows {
		byUser[s.User] = append(byUser[s.User], s.Intervals[m]...)
	}
	for _, list := range byUser {
		sum += time.Duration(interval.Total(interval.Union(list))) * time.Millisecond
	}
	return sum
}

// mustBeRebuilt finds that what the live ledger has stored is what the streams yield, and
// that its totals add up. It returns the books.
func mustBeRebuilt(t *testing.T, f *e2e.Fabric, s store.Store) *books {
	t.Helper()
	kept := stored(t, s, "1")
	rebuild(t, f, onlineTime).mustEqual(kept)
	mustAddUp(t, s, "1", liveConfig.Zones...)
	return kept
}

// mustAddUp computes the daily totals again from the stored sessions.
func mustAddUp(t *testing.T, s store.Store, version string, zones ...string) {
	t.Helper()
	for _, name := range zones {
		zone, err := interval.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active} {
			got := all(t, s.Daily(t.Context(), store.DailyKey{Definition: version, Zone: name, Measure: m}, -1e5, 1e5))
			want := all(t, report.Daily(t.Context(), s, report.Query{Definition: version, Zone: zone, Measure: m, Bounds: always}))
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("%s in %s:\nstored  %v\nadds up %v", m, name, got, want)
			}
		}
	}
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for x, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

// settle lets nothing but time pass, until every session is final and in the store.
func settle(f *e2e.Fabric) { f.At(f.Now() + onlineTime.Lateness*5/4 + 5*time.Minute) }

// TestLedgerOfACutEdge cuts an edge off for ten minutes while devices come, change and
// go; what it delivers late is in the live ledger as in a rebuilt one, and the sessions
// that went on have no hole.
func TestLedgerOfACutEdge(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		f.StartLedger(&e2e.Database{Store: s}, live.Config{Definition: onlineTime})
		cutEdge(f)
		settle(f)
		kept := stored(t, s, "1")
		rebuild(t, f, onlineTime).mustEqual(kept)
		mustAddUp(t, s, "1", "UTC")
		checkCutEdge(kept)
	})
}

// cutEdge is half an hour of twenty devices, amid which their edge is cut off for ten
// minutes, and of a user who comes back with another one.
func cutEdge(f *e2e.Fabric) {
	begin := f.Now()
	at := func(d time.Duration) { f.At(begin + d) }
	e := f.StartEdge("g1")
	var devices []*e2e.Device
	for i := range 20 {
		devices = append(devices, f.Connect(e, fmt.Sprintf("u%02d", i), "phone"))
	}
	twice := f.Connect(e, "twice", "phone")
	at(4 * time.Minute)
	twice.Close()
	at(5 * time.Minute)
	e.Link.Cut()
	at(8 * time.Minute)
	for i, d := range devices[:10] {
		switch {
		case i < 3:
			d.Close()
		case i < 6:
			d.Silence()
		default:
			if err := d.SetState(edge.State{Foreground: i%2 == 0}); err != nil {
				f.T.Error(err)
			}
		}
	}
	devices = append(devices, f.Connect(e, "late", "phone"))
	at(15 * time.Minute)
	e.Link.Heal()
	at(20 * time.Minute)
	devices = append(devices, f.Connect(e, "twice", "tablet"))
	at(30 * time.Minute)
	for _, d := range devices {
		d.Close()
	}
}

func checkCutEdge(k *books) {
	k.t.Helper()
	if len(k.rows) != 23 || len(k.rejected) > 0 {
		k.t.Errorf("%d sessions, in quarantine: %v", len(k.rows), k.rejected)
	}
	for _, s := range k.rows {
		set, want := s.Intervals[ledger.Connected], 29*time.Minute
		switch {
		case s.Device == "tablet":
			want = 9 * time.Minute
		case s.User == "twice":
			want = 3 * time.Minute
		case s.User < "u06":
			want = 7 * time.Minute
		case s.User == "late":
			want = 0
		}
		if length := time.Duration(interval.Total(set)) * time.Millisecond; len(set) != 1 || length < want || length > want+90*time.Second && s.User != "late" {
			k.t.Errorf("%s was connected %s: %v", s.User, length, set)
		}
	}
}

// TestLedgerOfASession lets a session go on over a reconnect to another edge.
func TestLedgerOfASession(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		books := openLedger(t)
		f.StartLedger(&e2e.Database{Store: books}, live.Config{Definition: onlineTime})
		own := edge.Session{ID: "tab-7", Client: edge.Client{Type: "web", Version: "3", Region: "eu"}}
		state := edge.State{Foreground: true, Active: true}
		for i, id := range []string{"g1", "g2"} {
			e := f.StartEdge(id)
			c, err := e.ConnectSession("ada", "laptop", state, own)
			if err != nil {
				t.Fatal(err)
			}
			f.At(time.Duration(i)*5*time.Minute + 10*time.Second)
			for beat := range uint32(8) {
				f.At(f.Now() + 30*time.Second)
				c.Beat(beat + 1)
			}
			if i == 0 {
				f.At(5 * time.Minute)
			} else {
				c.Close()
			}
		}
		settle(f)
		kept := stored(t, books, "1")
		rebuild(t, f, onlineTime).mustEqual(kept)
		s := kept.rows[ledger.SessionKey{User: "ada", Device: "laptop", ID: "tab-7"}]
		if len(kept.rows) != 1 || s.Client != (ledger.Client{Type: "web", Version: "3", Region: "eu"}) || s.Ended != ledger.KindClose {
			t.Errorf("rows %v", kept.rows)
		}
		if set := s.Intervals[ledger.Connected]; len(set) != 1 {
			t.Errorf("connected %v, want one stretch", set)
		}
	})
}

// TestLedgerOfASharedSession: two users, and a second device of one of them, whose
// application gives all the same session id are three sessions. A ledger that is started
// again knows the stored ones under the names that devices have there.
func TestLedgerOfASharedSession(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		config := liveConfig
		config.Device = func(id string) string { return "veiled-" + id }
		first := f.StartLedger(&e2e.Database{Store: s}, config)
		e := f.StartEdge("g1")
		var conns []*edge.Conn
		for _, who := range [][2]string{{"ann", "phone"}, {"ann", "tablet"}, {"bob", "phone"}} {
			c, err := e.ConnectSession(who[0], who[1], edge.State{Foreground: true, Active: true}, edge.Session{ID: "main"})
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for beat := range uint32(12) {
			f.At(f.Now() + 30*time.Second)
			for i, c := range conns {
				if c.Beat(beat + 1); int(beat) == 2*i+4 {
					c.Close()
				}
			}
			if beat == 5 {
				first.Kill()
				f.StartLedger(&e2e.Database{Store: s}, config)
			}
		}
		settle(f)
		kept, want := stored(t, s, "1"), rebuild(t, f, onlineTime)
		if len(want.rows) != 3 || len(kept.rows) != 3 {
			t.Errorf("rows %v", kept.rows)
		}
		for k, w := range want.rows {
			w.Device = config.Device(k.Device)
			if got := kept.rows[w.Key()]; !reflect.DeepEqual(got, w) {
				t.Errorf("live    %+v\nrebuilt %+v", got, w)
			}
		}
		mustAddUp(t, s, "1", liveConfig.Zones...)
	})
}

// TestLedgerHearsWhatAnEdgeIsTold: whatever a host tells an edge, in whatever order,
// is what the streams yield, kind by kind. Heartbeats bear the edge's coarse stamp.
func TestLedgerHearsWhatAnEdgeIsTold(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				f := e2e.New(t, e2e.Options{Shards: 2})
				f.StartKeeper()
				h := host{f: f, e: f.StartEdge("g1"), random: rand.New(rand.NewPCG(seed, 9)), told: make(map[string][]ledger.Event)}
				for range 200 {
					f.At(f.Now() + time.Duration(1500+h.random.IntN(2000))*time.Millisecond)
					h.step(t)
				}
				f.At(f.Now() + 3*time.Minute) // who is silent is given up, and everything published
				h.check(t)
			})
		})
	}
}

// A host tells an edge at random, and notes it.
type host struct {
	f      *e2e.Fabric
	e      *e2e.Edge
	random *rand.Rand
	conns  []*hosted
	told   map[string][]ledger.Event // by session
}

type hosted struct {
	*edge.Conn
	session string
	state   edge.State
	beats   uint32
	beat    time.Time // the last
}

func (h *host) note(c *hosted, kind ledger.Kind) {
	h.told[c.session] = append(h.told[c.session], ledger.Event{
		At: time.Now().UnixMilli(), User: c.User(), Device: c.Device(), Session: c.session, Kind: kind, Activity: c.state.Activity,
		Foreground: c.state.Foreground, Active: c.state.Foreground && c.state.Active,
	})
}

func (h *host) step(t *testing.T) {
	if len(h.conns) == 0 || h.random.IntN(8) == 0 {
		c := &hosted{session: fmt.Sprint("s", len(h.told)), state: h.state()}
		var err error
		c.Conn, err = h.e.ConnectSession(fmt.Sprint("u", len(h.told)), "phone", c.state, edge.Session{ID: c.session, Client: edge.Client{Region: "eu"}})
		if err != nil {
			t.Fatal(err)
		}
		h.note(c, ledger.KindOpen)
		h.conns = append(h.conns, c)
		return
	}
	i := h.random.IntN(len(h.conns))
	c := h.conns[i]
	if c.Gone() {
		h.conns = slices.Delete(h.conns, i, i+1)
		return
	}
	switch n := h.random.IntN(10); {
	case n == 0:
		c.CloseFor(wire.Reason_REASON_LOGOUT)
		h.note(c, ledger.KindLogout)
	case n == 1:
		c.Close()
		h.note(c, ledger.KindClose)
	case n < 5:
		before, now := c.state, h.state()
		if now == before {
			return
		}
		c.state = now
		if err := c.SetState(now); err != nil {
			t.Fatal(err)
		}
		kind := ledger.KindIdle
		switch {
		case !now.Foreground && !before.Foreground && now.Activity == before.Activity:
			return // nobody could tell
		case !now.Foreground:
			kind = ledger.KindBackground
		case !before.Foreground:
			kind = ledger.KindForeground
		case now.Active:
			kind = ledger.KindActive
		}
		h.note(c, kind)
	case time.Since(c.beat) < h.f.Params.Heartbeat/2:
		// An edge keeps four heartbeats of a connection between two renewals.
	default:
		c.beat = time.Now()
		c.beats++
		c.Beat(c.beats)
		h.note(c, ledger.KindBeat)
	}
}

func (h *host) state() edge.State {
	return edge.State{
		Foreground: h.random.IntN(3) > 0, Active: h.random.IntN(2) == 0, Activity: []string{"", "streaming"}[h.random.IntN(2)],
	}
}

// tape takes what the streams yield, by session.
type tape struct {
	t      *testing.T
	events map[string][]ledger.Event
}

func (k tape) Event(e ledger.Event)                    { k.events[e.Session] = append(k.events[e.Session], e) }
func (k tape) Beat(c *raw.Conn, at int64, flags uint8) { k.Event(c.Beat(at, flags)) }
func (k tape) Reject(r ledger.Rejected)                { k.t.Errorf("in quarantine: %+v", r) }

func (h *host) check(t *testing.T) {
	k := tape{t, make(map[string][]ledger.Event)}
	for shard := range h.f.Names.Shards() {
		d := raw.New(h.f.Names.Names, time.Hour, k)
		err := raw.Follow(t.Context(), h.f.JS, h.f.Names.Names, shard, raw.Position{}, func(s raw.Step) error {
			for _, m := range s.Msgs {
				d.Add(m)
			}
			if s.Ended {
				return raw.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Flush()
	}
	for id, want := range h.told {
		// The two streams apart: each in the order in which it was told.
		for _, beats := range []bool{false, true} {
			h.compare(t, id, beats, pick(want, beats), pick(k.events[id], beats))
		}
	}
	if len(k.events) != len(h.told) {
		t.Errorf("%d sessions, want %d", len(k.events), len(h.told))
	}
}

func pick(list []ledger.Event, beats bool) (picked []ledger.Event) {
	for _, e := range list {
		if (e.Kind == ledger.KindBeat) == beats {
			picked = append(picked, e)
		}
	}
	return picked
}

func (h *host) compare(t *testing.T, id string, beats bool, want, got []ledger.Event) {
	if n := len(got); !beats && n == len(want)+1 && got[n-1].Kind == ledger.KindTimeout {
		got = got[:n-1] // it fell silent, and the edge said so
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d events, told %d:\n%v\n%v", id, len(got), len(want), got, want)
		return
	}
	for i, g := range got {
		w := want[i]
		early := int64(0)
		if beats {
			early = 2 * time.Second.Milliseconds() // two resolutions of the edge's clock
		}
		if g.At > w.At || g.At < w.At-early {
			t.Errorf("%s: %d at %d, told at %d", id, g.Kind, g.At, w.At)
		}
		if !beats && g.Kind <= ledger.KindIdle && g.Client.Region != "eu" {
			t.Errorf("%s: the client is %+v", id, g.Client)
		}
		if beats {
			w.Activity = "" // heartbeats bear none
		}
		ends := g.Kind >= ledger.KindClose
		if g.Kind != w.Kind || g.User != w.User || !ends && (g.Activity != w.Activity || g.Foreground != w.Foreground || g.Active != w.Active) {
			t.Errorf("%s: got %+v, told %+v", id, g, w)
		}
	}
}
