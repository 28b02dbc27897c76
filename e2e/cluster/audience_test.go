//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A sight is what one viewer was shown of one target.
type sight struct {
	at      time.Time
	viewer  string
	target  string
	status  rollcall.Status
	reason  string
	version uint64
}

// An audience watches every user, each by one viewer, on connections as an application has them.
type audience struct {
	t       *testing.T
	clients []*viewer.Client

	mu     sync.Mutex
	sights []sight
}

func connect(t *testing.T, urls string, c identity.Credential, err error, options ...nats.Option) *nats.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	options = append(append(c.Options(), nats.MaxReconnects(-1), nats.PingInterval(3*time.Second), nats.DontRandomize(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), options...)
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func startAudience(ctx context.Context, t *testing.T, s *servers, issuer *identity.Issuer, viewers, users int) *audience {
	t.Helper()
	a := &audience{t: t}
	for v := range viewers {
		name := fmt.Sprintf("v%d", v)
		credential, err := issuer.Viewer(name, time.Hour)
		c, err := viewer.New(connect(t, s.urls(v), credential, err), viewer.Config{Viewer: name, Outage: params().Outage})
		if err != nil {
			t.Fatal(err)
		}
		a.clients = append(a.clients, c)
		go c.Run(ctx)
		go a.note(name, c)
	}
	for v, c := range a.clients {
		var targets []string
		for n := v; n < users; n += viewers {
			targets = append(targets, user(n))
		}
		watching, cancel := context.WithTimeout(ctx, patience)
		err := c.Watch(watching, targets...)
		cancel()
		if err != nil {
			t.Fatalf("v%d does not watch: %v", v, err)
		}
	}
	return a
}

func (a *audience) note(name string, c *viewer.Client) {
	for change := range c.Changes() {
		a.mu.Lock()
		a.sights = append(a.sights, sight{change.At, name, change.Target, change.View.Status, change.Reason, change.View.Version})
		a.mu.Unlock()
	}
}

// of is what is shown of a user now.
func (a *audience) of(n int) rollcall.Status {
	s, _ := a.clients[n%len(a.clients)].State(user(n))
	return s.View.Status
}

// since takes what was shown from an instant on.
func (a *audience) since(t time.Time) (all []sight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sights {
		if !s.at.Before(t) {
			all = append(all, s)
		}
	}
	return all
}

// checkVersions holds everything that was ever shown against the rule that the versions of a target
// only grow, and that no change has the version of what was shown before.
func (a *audience) checkVersions() {
	a.t.Helper()
	last := make(map[string]sight)
	for _, s := range a.since(time.Time{}) {
		if s.status == rollcall.StatusUnknown {
			continue
		}
		before, known := last[s.target]
		if known && (s.version < before.version || s.version == before.version && s.status != before.status) {
			a.t.Errorf("%s was shown %s %s of version %d and then %s of %d", s.viewer, s.target, before.status, before.version, s.status, s.version)
		}
		last[s.target] = s
	}
}
