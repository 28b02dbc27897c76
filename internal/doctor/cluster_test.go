package doctor_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/doctor"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
)

const room = 10 << 20 // of each server

// guarded is a cluster with a system account.
func guarded(t *testing.T) (c *lab.Cluster, nc, system *nats.Conn) {
	dir := t.TempDir()
	c = lab.NewCluster(t, func(n int) *server.Options {
		sys, app := server.NewAccount("SYS"), server.NewAccount("APP")
		return &server.Options{
			ServerName: fmt.Sprint("n", n), JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(n)), NoSigs: true,
			JetStreamMaxStore: room, SyncAlways: n == 0, Cluster: server.ClusterOpts{Name: "lab"},
			SystemAccount: "SYS", Accounts: []*server.Account{sys, app},
			Users: []*server.User{{Username: "system", Password: "s", Account: sys}, {Username: "app", Password: "a", Account: app}},
		}
	})
	for n := range 3 {
		app, err := c.Server(n).LookupAccount("APP")
		if err == nil {
			err = app.EnableJetStream(nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c, c.Connect(nats.UserInfo("app", "a")), c.Connect(nats.UserInfo("system", "s"))
}

// The doctor sees that servers sync differently, are almost full, and are away.
func TestServers(t *testing.T) {
	c, nc, system := guarded(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	hasty := rollcall.Default()
	hasty.Outage, hasty.Sweep = time.Second, time.Second // so long are keepers listened for
	f, err := fabric.Ensure(t.Context(), js, fabric.Config{Shards: 1, Params: hasty, Unchecked: true, Replicas: 3})
	if err == nil {
		err = fabric.Settled(t.Context(), js, f.Names)
	}
	if err != nil {
		t.Fatal(err)
	}
	examine := func(level doctor.Level, want ...string) {
		t.Helper()
		var found []doctor.Finding
		if err := doctor.Examine(t.Context(), nc, doctor.Config{System: system}, func(f doctor.Finding) { found = append(found, f) }); err != nil {
			t.Error(err)
		}
		for _, pattern := range want {
			met := false
			for _, f := range found {
				met = met || f.Level == level && regexp.MustCompile("^"+pattern).MatchString(f.Check+": "+f.Text)
			}
			if !met {
				t.Errorf("no %s that %s in %v", level, pattern, found)
			}
		}
	}
	examine(doctor.OK, "servers: 3 servers, none missing", "replicas: 3 replicas of everything, complete")

	filler, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	for range 17 {
		if _, err := js.Publish(t.Context(), "filler", make([]byte, room/20)); err != nil {
			t.Fatal(err)
		}
	}
	examine(doctor.Warning, `disks: n. has stored .* of 10 MiB \(85 %\): at 100 %`, "disks: servers sync differently: n1 every 2m0s, n2 every 2m0s, others")

	c.Stop(1)
	c.Await("everybody to know", func() bool {
		info, err := filler.Info(t.Context())
		if err != nil || info.Cluster.Leader == "" {
			return false
		}
		for _, r := range info.Cluster.Replicas {
			if r.Offline {
				return true
			}
		}
		return false
	})
	examine(doctor.Problem, `servers: of 3 servers that store, 1 away: n1`, "replicas: n1 is offline, and with it replicas of 9 streams: bucket presence_cohort_keeper, ")
}
