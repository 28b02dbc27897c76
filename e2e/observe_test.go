package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/health"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// TestNoLinePerHeartbeat: in ten minutes in which forty devices only send heartbeats, and viewers
// only refresh what they watch, nobody has anything to log, whatever the level.
func TestNoLinePerHeartbeat(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		var lines lines
		f := whole(t, e2e.Options{Logger: slog.New(&lines)})
		users := names("u", 40)
		f.StartViewer("vera", users...)
		g := f.StartEdge("g1")
		for _, u := range users {
			f.Connect(g, u, "phone")
		}
		f.At(60 * second)
		before, beats := lines.all(), g.Stats().Beats
		if len(before) == 0 {
			t.Fatal("nothing was logged at the start: this test hears nothing")
		}
		f.At(660 * second)
		if n := g.Stats().Beats - beats; n < 40*19 {
			t.Errorf("%d heartbeats", n)
		}
		if said := lines.all()[len(before):]; len(said) > 0 {
			t.Errorf("logged meanwhile: %q", said)
		}
	})
}

// lines remembers what is logged, of every level.
type lines struct {
	mu   sync.Mutex
	said []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Level.String()+" "+r.Message)
	return nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// TestHealth: parts live all the time, and are ready while they are connected, what they own is
// loaded, and they do not leave.
func TestHealth(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		keepers := []*e2e.Keeper{f.StartKeeperAs("k1"), f.StartKeeperAs("k2")}
		alone := f.StartFanout()
		ledger := f.StartLedger(&e2e.Database{Store: openLedger(t)}, liveConfig)
		f.At(30 * second)
		parts := map[string]health.Part{"k1": keepers[0], "k2": keepers[1], "fanout": alone, "ledger": ledger}
		see := func(when string, want map[string]string) {
			t.Helper()
			for name, p := range parts {
				if err := p.Live(); err != nil {
					t.Errorf("%s: %s %v", when, name, err)
				}
				if says := said(p.Readiness()); !strings.Contains(says, want[name]) || want[name] == "" && says != "" {
					t.Errorf("%s: %s says %q, want %q", when, name, says, want[name])
				}
			}
		}
		see("all is well", nil)

		keepers[0].Link.Cut()
		alone.Link.Cut()
		ledger.Link.Cut()
		f.At(f.Now() + 30*second)
		see("three are cut off", map[string]string{"k1": "not connected", "fanout": "not connected", "ledger": "not connected"})
		keepers[0].Link.Heal()
		alone.Link.Heal()
		ledger.Link.Heal()
		f.At(f.Now() + 30*second)
		see("and back", nil)

		f.Server.Stop()
		f.At(f.Now() + 300*second)
		away := "not connected"
		see("NATS is away", map[string]string{"k1": away, "k2": away, "fanout": away, "ledger": away})
		f.Server.Start()
		f.At(f.Now() + 60*second)
		see("and back", nil)

		left := make(chan error, 1)
		keepers[1].Link.Freeze() // its goodbye takes time
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			left <- keepers[1].Drain(ctx)
		}()
		f.At(f.Now() + second)
		see("one leaves", map[string]string{"k2": "is leaving"})
		keepers[1].Link.Thaw()
		if err := <-left; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		f.At(f.Now() + 30*second)
		see("one has left", map[string]string{"k2": "is leaving"})

		late := f.StartKeeperAs("k3") // nobody has given it a shard yet
		parts["k3"] = late
		see("one begins", map[string]string{"k2": "is leaving", "k3": "looks for the fabric"})
		f.At(f.Now() + 30*second)
		see("and has begun", map[string]string{"k2": "is leaving"})
	})
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
