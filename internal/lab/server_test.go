package lab_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/lab"
)

func openStream(t *testing.T, link *lab.Link) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js, err := jetstream.New(lab.Connect(t, link))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log.*"}})
	if err != nil {
		t.Fatal(err)
	}
	return js, stream
}

func publish(t *testing.T, js jetstream.JetStream, text string) uint64 {
	t.Helper()
	ack, err := js.Publish(context.Background(), "log.a", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

func contents(t *testing.T, stream jetstream.Stream) []string {
	t.Helper()
	info, err := stream.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(context.Background(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(m.Data))
	}
	return all
}

func TestRestartKeepsTheData(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		js, stream := openStream(t, server.NewLink())
		publish(t, js, "before")
		server.Stop()
		synctest.Wait()
		if server.Running() || js.Conn().IsConnected() {
			t.Error("running, or connected to a stopped server")
		}
		time.Sleep(time.Hour)
		server.Start()
		time.Sleep(time.Second)
		publish(t, js, "after")
		if got := contents(t, stream); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("holds %q", got)
		}
	})
}

func TestRestoreLosesExactlyTheTail(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		js, stream := openStream(t, server.NewLink())
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "kept"})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		var snapshot *lab.Snapshot
		for i := range 90 { // a message a second; the last 30 s get lost
			if i == 60 {
				snapshot = server.Snapshot("LOG")
			}
			text := strconv.Itoa(i)
			publish(t, js, text)
			if i < 60 {
				want = append(want, text)
			}
			time.Sleep(time.Second)
		}
		if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		server.Stop()
		server.Restore(snapshot)
		server.Start()
		time.Sleep(time.Second)
		if got := contents(t, stream); !slices.Equal(got, want) {
			t.Errorf("holds %q", got)
		}
		if _, err := kv.Get(t.Context(), "k"); err != nil {
			t.Errorf("another stream lost its data: %v", err)
		}
		if seq := publish(t, js, "new"); seq != 61 {
			t.Errorf("the next message got sequence %d", seq)
		}
	})
}

func TestSnapshotOfAStoppedServer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		js, stream := openStream(t, server.NewLink())
		publish(t, js, "kept")
		server.Stop()
		snapshot := server.Snapshot("LOG")
		server.Start()
		time.Sleep(time.Second)
		publish(t, js, "lost")
		server.Stop()
		server.Restore(snapshot)
		server.Start()
		time.Sleep(time.Second)
		if got := contents(t, stream); !slices.Equal(got, []string{"kept"}) {
			t.Errorf("holds %q", got)
		}
	})
}

// seen is when the store stamped a message, as every way to read it tells.
func seen(t *testing.T, js jetstream.JetStream, stream jetstream.Stream, seq uint64) time.Time {
	t.Helper()
	ctx := context.Background()
	got, err := stream.GetMsg(ctx, seq)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	delivered, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := delivered.DoubleAck(ctx); err != nil {
		t.Errorf("acknowledging to a rewritten subject: %v", err)
	}
	meta, err := delivered.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if !meta.Timestamp.Equal(got.Time) {
		t.Errorf("message %d: delivered with %v, read with %v", seq, meta.Timestamp, got.Time)
	}
	return got.Time
}

func TestSkewStampsWhatIsStoredFromThenOn(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "behind": -90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) { testSkew(t, skew) })
		})
	}
}

func testSkew(t *testing.T, skew time.Duration) {
	server := lab.NewServer(t)
	link := server.NewLink()
	js, stream := openStream(t, link)
	before, beforeAt := publish(t, js, "before"), time.Now()
	link.Skew(skew)
	during, duringAt := publish(t, js, "during"), time.Now()
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Until(info.TimeStamp); got != skew {
		t.Errorf("the store's clock is off by %v", got)
	}
	if !info.State.FirstTime.Equal(beforeAt) || info.State.LastTime.Sub(duringAt) != skew {
		t.Errorf("first %v, last %v", info.State.FirstTime, info.State.LastTime)
	}
	time.Sleep(time.Minute)
	link.Skew(0)
	after, afterAt := publish(t, js, "after"), time.Now()
	for _, m := range []struct {
		seq  uint64
		want time.Time
	}{{before, beforeAt}, {during, duringAt.Add(skew)}, {after, afterAt}} {
		if got := seen(t, js, stream, m.seq); !got.Equal(m.want) {
			t.Errorf("message %d is stamped %v, want %v", m.seq, got, m.want)
		}
	}
}

func TestSkewOfTheServerReachesEveryLinkAndDirectReads(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		for range 2 {
			js, err := jetstream.New(lab.Connect(t, server.NewLink()))
			if err != nil {
				t.Fatal(err)
			}
			kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
			if err != nil {
				t.Fatal(err)
			}
			server.Skew(time.Hour)
			if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			entry, err := kv.Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if off := time.Until(entry.Created()); off != time.Hour {
				t.Errorf("stamped %v off", off)
			}
		}
	})
}
