package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/subjects"
)

var onlineTime = ledger.Definition{
	Version: "1", Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second},
	Idle: 5 * time.Minute, Limit: 7 * 24 * time.Hour, Lateness: time.Hour,
}

// books are the rows and refusals of all shards.
type books struct {
	t  *testing.T
	mu sync.Mutex

	rows     map[string]ledger.Session
	rejected []string
	revised  int
	beats    int
}

func (k *books) row(s ledger.Session, _ bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, known := k.rows[s.ID]
	if known && s.Revision < before.Revision {
		k.t.Errorf("the revision of %s went back from %d to %d", s.ID, before.Revision, s.Revision)
	}
	k.rows[s.ID] = s
	k.revised++
}

func (k *books) reject(r ledger.Rejected) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, _ := json.Marshal(r)
	k.rejected = append(k.rejected, string(text))
}

// A ledger of one shard, as a process that follows its streams has it.
type accounts struct {
	*books
	*session.Builder
	*raw.Decoder
	live bool
}

func (k *books) open(names subjects.Names, live bool) *accounts {
	b, err := session.New(session.Config{Definition: onlineTime, Session: k.row, Reject: k.reject})
	if err != nil {
		k.t.Fatal(err)
	}
	return &accounts{k, b, raw.New(names, onlineTime.Lateness, raw.Into(b, k.reject)), live}
}

func (a *accounts) take(s raw.Step) error {
	for _, m := range s.Msgs {
		a.Decoder.Add(m)
		if m.Beats {
			_, list, _ := subjects.DecodeBeats(m.Data)
			a.mu.Lock()
			a.books.beats += len(list)
			a.mu.Unlock()
		}
	}
	a.Advance(s.Watermark)
	if a.live {
		a.Publish()
	}
	if s.Ended && !a.live {
		return raw.ErrStop
	}
	return nil
}

// close gives the last word.
func (a *accounts) close() {
	a.Decoder.Flush()
	a.Builder.Flush()
}

// keepBooks follows all shards live until stop is called, which returns the books.
func keepBooks(t *testing.T, f *e2e.Fabric) (stop func() *books) {
	k := &books{t: t, rows: make(map[string]ledger.Session)}
	ctx, cancel := context.WithCancel(t.Context())
	var all []*accounts
	var running sync.WaitGroup
	for shard := range f.Names.Shards() {
		a := k.open(f.Names.Names, true)
		all = append(all, a)
		running.Go(func() {
			if err := raw.Follow(ctx, f.JS, f.Names.Names, shard, raw.Position{}, a.take); err != nil && ctx.Err() == nil {
				t.Errorf("shard %d: %v", shard, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return func() *books {
		cancel()
		running.Wait()
		for _, a := range all {
			a.close()
		}
		return k
	}
}

// rebuild makes the books again from the streams.
func rebuild(t *testing.T, f *e2e.Fabric) *books {
	k := &books{t: t, rows: make(map[string]ledger.Session)}
	for shard := range f.Names.Shards() {
		a := k.open(f.Names.Names, false)
		if err := raw.Follow(t.Context(), f.JS, f.Names.Names, shard, raw.Position{}, a.take); err != nil {
			t.Fatal(err)
		}
		a.close()
	}
	return k
}

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
	// A session as a whole is refused at each of its last words; the newest counts.
	if a, b := slices.Compact(live.rejected), slices.Compact(k.rejected); !slices.Equal(a, b) {
		k.t.Errorf("live quarantine %d: %v\nrebuilt %d: %v", len(a), a, len(b), b)
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

// TestLedgerOfADay plays a day of the trace through the whole fabric. The ledger that
// followed it live and the one that is built from the streams afterwards are equal.
func TestLedgerOfADay(t *testing.T) {
	events := readTrace(t, "testdata/irc-netsplit-1d.csv")
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		stop := keepBooks(t, f)
		ctx, end := context.WithCancel(t.Context())
		player := trace.Player{
			Params: f.Params, Speed: 1, Seed: 1,
			Start: func(_ context.Context, id string) (trace.Gateway, error) {
				g := f.StartEdge(id)
				return trace.Gateway{Node: g.Node, Crash: g.Kill}, nil
			},
		}
		if err := player.Play(ctx, events); err != nil {
			t.Fatal(err)
		}
		f.At(f.Now() + 5*time.Minute)
		end()
		player.Wait()
		live := stop()
		rebuilt := rebuild(t, f)
		rebuilt.mustEqual(live)
		t.Logf("%d sessions, %d rows live, %d heartbeats, connected %s, active %s, in quarantine %d", len(live.rows), live.revised,
			live.beats, live.total(ledger.Connected), live.total(ledger.Active), len(live.rejected))
	})
}

// TestLedgerOfACutEdge cuts an edge off for ten minutes while devices come, change and
// go; what it delivers late is in the live ledger as in a rebuilt one, and the sessions
// that went on have no hole.
func TestLedgerOfACutEdge(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		stop := keepBooks(t, f)
		e := f.StartEdge("g1")
		var devices []*e2e.Device
		for i := range 20 {
			devices = append(devices, f.Connect(e, fmt.Sprintf("u%02d", i), "phone"))
		}
		f.At(5 * time.Minute)
		e.Link.Cut()
		f.At(8 * time.Minute)
		for i, d := range devices[:10] {
			switch {
			case i < 3:
				d.Close()
			case i < 6:
				d.Silence()
			default:
				if err := d.SetState(edge.State{Foreground: i%2 == 0}); err != nil {
					t.Error(err)
				}
			}
		}
		f.Connect(e, "late", "phone")
		f.At(15 * time.Minute)
		e.Link.Heal()
		f.At(30 * time.Minute)
		live := stop()
		rebuilt := rebuild(t, f)
		rebuilt.mustEqual(live)
		if len(live.rows) != 21 {
			t.Errorf("%d sessions", len(live.rows))
		}
		if len(live.rejected) > 0 {
			t.Errorf("in quarantine: %v", live.rejected)
		}
		for _, s := range live.rows {
			set, want := s.Intervals[ledger.Connected], 29*time.Minute
			switch {
			case s.User < "u06":
				want = 7 * time.Minute
			case s.User == "late":
				want = 0
			}
			if length := time.Duration(interval.Total(set)) * time.Millisecond; len(set) != 1 || length < want || length > want+90*time.Second && s.User != "late" {
				t.Errorf("%s was connected %s: %v", s.User, length, set)
			}
		}
	})
}

// TestLedgerOfASession lets a session go on over a reconnect to another edge.
func TestLedgerOfASession(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		stop := keepBooks(t, f)
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
		f.At(f.Now() + 5*time.Minute)
		live := stop()
		rebuild(t, f).mustEqual(live)
		s := live.rows["tab-7"]
		if len(live.rows) != 1 || s.Client != (ledger.Client{Type: "web", Version: "3", Region: "eu"}) || s.Ended != ledger.KindClose {
			t.Errorf("rows %v", live.rows)
		}
		if set := s.Intervals[ledger.Connected]; len(set) != 1 {
			t.Errorf("connected %v, want one stretch", set)
		}
	})
}

