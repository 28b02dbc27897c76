package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// The table of section 9 of the design: what is written here is in the field.
func TestNamesGolden(t *testing.T) {
	n := names(t, 4)
	for _, row := range []struct{ got, want string }{
		{n.LogStream(2), "PRESENCE_LOG_2"},
		{n.LogSubjects(2), "presence.log.2.*"},
		{n.Log(2, "edge-1"), "presence.log.2.edge-1"},
		{n.Log(2, "a.b"), "presence.log.2.=YS5i"},
		{n.Tick(2), "presence.log.2.=t"},
		{n.BeatsStream(0), "PRESENCE_BEATS_0"},
		{n.BeatsSubjects(0), "presence.beats.0.*"},
		{n.Beats(0, "edge-1"), "presence.beats.0.edge-1"},
		{n.EdgeControl("edge-1"), "presence.edge.edge-1.ctl"},
		{n.Pulse(3), "presence.pulse.3"},
		{n.Request(subjects.OpSubscribe, "alice"), "presence.req.subscribe.alice"},
		{n.Request(subjects.OpUnsubscribe, "alice"), "presence.req.unsubscribe.alice"},
		{n.Request(subjects.OpGet, "*"), "presence.req.get.=Kg"},
		{n.Requests(subjects.OpRefresh), "presence.req.refresh.*"},
		{n.ViewEvents("alice", 1), "presence.view.alice.1"},
		{n.ViewEventsAll("alice"), "presence.view.alice.*"},
		{n.Service(), "presence"},
		{n.Peers(), "presence.peers.state"},
		{n.Peer("F1"), "presence.peer.F1.part"},
		{n.Relay("F1", n.Request(subjects.OpGet, "*")), "presence.peer.F1.req.get.=Kg"},
		{n.PeersAll(), "presence.peer.>"},
		{n.LeasesBucket(1), "presence_leases_1"},
		{n.ViewsBucket(1), "presence_views_1"},
		{n.InterestBucket(1), "presence_interest_1"},
		{n.CohortBucket("workers"), "presence_cohort_workers"},
		{n.CohortBucket("my workers"), "presence_cohort_--bXkgd29ya2Vycw"},
		{n.CohortBucket("--bXkgd29ya2Vycw"), "presence_cohort_--LS1iWGtnZDI5eWEyVnljdw"},
		{n.Prefix(), "presence"},
		{subjects.KeyEdge("edge-1"), "edge.edge-1"},
		{subjects.KeyUser("alice"), "user.alice"},
		{subjects.KeyView("a b"), "view.=YSBi"},
		{subjects.KeyShard(3), "shard.3"},
		{subjects.KeyInterest("alice", 7), "alice.7"},
		{subjects.KVSubject("presence_views_1", "view.alice"), "$KV.presence_views_1.view.alice"},
		{subjects.KVStream("presence_views_1"), "KV_presence_views_1"},
		{subjects.KVKey("presence_views_1", "$KV.presence_views_1.view.alice"), "view.alice"},
	} {
		if row.got != row.want {
			t.Errorf("got %q, want %q", row.got, row.want)
		}
	}
}

func TestNewRefusesWhatCannotBeNamed(t *testing.T) {
	for _, prefix := range []string{"", "Presence", "a.b", "a-b", "1a", "_a", "*", ">", "a b", "ü", "a\n", strings.Repeat("a", 33)} {
		if _, err := subjects.New(prefix, 4); !errors.Is(err, subjects.ErrNames) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	for _, shards := range []int{-1, 0, subjects.MaxShards + 1} {
		if _, err := subjects.New("presence", shards); !errors.Is(err, subjects.ErrNames) {
			t.Errorf("%d shards: %v", shards, err)
		}
	}
}

func TestParseLog(t *testing.T) {
	n := names(t, 4)
	if edge, tick, err := n.ParseLog(n.Tick(3)); !tick || edge != "" || err != nil {
		t.Errorf("a tick: %q, %v, %v", edge, tick, err)
	}
	if edge, tick, err := n.ParseLog("presence.log.0.=Kh"); err == nil {
		t.Errorf("no token: %q, %v", edge, tick)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := validID.Draw(t, "edge")
		if edge, tick, err := n.ParseLog(n.Log(1, want)); tick || edge != want || err != nil {
			t.Fatalf("%q: %q, %v, %v", want, edge, tick, err)
		}
		if viewer, err := n.ParseRequest(n.Request(subjects.OpGet, want)); viewer != want || err != nil {
			t.Fatalf("%q: %q, %v", want, viewer, err)
		}
	})
}

func TestBucketsAreAcceptedByNATS(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		js, err := jetstream.New(lab.Connect(t, lab.NewServer(t).NewLink()))
		if err != nil {
			t.Fatal(err)
		}
		n := names(t, 1)
		for _, group := range []string{"workers", "my workers", "*", "日本"} {
			if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: n.CohortBucket(group)}); err != nil {
				t.Errorf("group %q: %v", group, err)
			}
		}
	})
}
