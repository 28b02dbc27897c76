package storeclock_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/storeclock"
)

func TestSync(t *testing.T) {
	runtime.GC() // nats.go pools timers, and none may come in from another bubble
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(5 * time.Second) {
			t.Fatal("nats-server not ready")
		}
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, _ := jetstream.New(nc)
		start := time.Now()
		local := func() time.Duration { return time.Since(start) }

		var c storeclock.Clock
		if err := storeclock.Sync(t.Context(), js, "ABSENT", local, &c); err == nil {
			t.Error("a stream that does not exist told the time")
		}
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := storeclock.Sync(t.Context(), js, "LOG", local, &c); err != nil {
			t.Fatal(err)
		}
		if at, ok := c.At(local()); !ok || at != rollcall.MicrosOf(time.Now()) {
			t.Errorf("the store says %v, the estimate %v", time.Now().UTC(), at.Time())
		}
	})
}
