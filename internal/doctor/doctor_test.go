package doctor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/doctor"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// scene is a fabric with all that it needs, and whoever examines it.
type scene struct {
	*e2e.Fabric
	keeper *e2e.Keeper
	fanout *e2e.Fanout
	edge   *e2e.Edge
	hers   *lab.Link // the examiner's
}

// stage makes one without the parts that are named.
func stage(t *testing.T, o e2e.Options, without string) *scene {
	if o.Shards == 0 {
		o.Shards = 2
	}
	s := &scene{Fabric: e2e.New(t, o)}
	s.hers = s.Server.NewLink()
	if without != "keeper" {
		s.keeper = s.StartKeeper()
	}
	if without != "fanout" {
		s.fanout = s.StartFanout()
	}
	if without != "edge" {
		s.edge = s.StartEdge("g1")
		s.Connect(s.edge, "ada", "phone")
	}
	s.At(s.Now() + 20*time.Second)
	return s
}

// examine returns what was found, by level.
func (s *scene) examine() (found map[doctor.Level][]string, err error) {
	found = make(map[doctor.Level][]string)
	err = doctor.Examine(s.T.Context(), lab.Connect(s.T, s.hers), doctor.Config{}, func(f doctor.Finding) {
		found[f.Level] = append(found[f.Level], f.Check+": "+f.Text)
	})
	return found, err
}

// change configures a stream otherwise.
func (s *scene) change(name string, how func(*jetstream.StreamConfig)) {
	s.T.Helper()
	stream, err := s.JS.Stream(s.T.Context(), name)
	if err != nil {
		s.T.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	how(&cfg)
	if _, err := s.JS.UpdateStream(s.T.Context(), cfg); err != nil {
		s.T.Fatal(err)
	}
}

// stall has a reader of a stream be so far behind.
func (s *scene) stall(stream string, behind uint64) {
	s.T.Helper()
	consumer, err := s.JS.CreateConsumer(s.T.Context(), stream, jetstream.ConsumerConfig{
		Durable: "stalled", DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	subject := s.Names.Beats(1, "g2")
	for range behind {
		if _, err := s.JS.PublishAsync(subject, nil); err != nil {
			s.T.Fatal(err)
		}
	}
	<-s.JS.PublishAsyncComplete()
	info, err := consumer.Info(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	if info.NumPending != behind {
		s.T.Fatalf("%d messages are to be read, want %d", info.NumPending, behind)
	}
}

func TestAllIsWell(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage(t, e2e.Options{}, "")
		before := make(map[string]map[string]e2e.Record)
		buckets := []string{s.Names.LeasesBucket(0), s.Names.ViewsBucket(0), s.Names.InterestBucket(0)}
		for _, b := range buckets {
			before[b] = s.Bucket(b)
		}
		found, err := s.examine()
		if err != nil || len(found[doctor.Problem]) > 0 || len(found[doctor.Warning]) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		checks := make(map[string]bool)
		for _, text := range found[doctor.OK] {
			name, _, _ := strings.Cut(text, ":")
			checks[name] = true
		}
		for _, want := range []string{"server", "storage", "fabric", "streams", "timing", "replicas", "clocks", "readers", "edges", "expiry", "keepers", "fanouts"} {
			if !checks[want] {
				t.Errorf("%s is not examined: %v", want, found)
			}
		}
		for _, b := range buckets {
			for key := range s.Bucket(b) {
				if strings.HasPrefix(key, "canary") {
					t.Errorf("%s is left in %s", key, b)
				}
			}
			if got, want := len(s.Bucket(b)), len(before[b]); got != want {
				t.Errorf("%s held %d records and holds %d", b, want, got)
			}
		}
		if len(found[doctor.Note]) != 1 {
			t.Errorf("notes %v", found[doctor.Note])
		}
	})
}

// Each fault is found, and nothing else is a problem.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		options e2e.Options
		without string
		harm    func(*scene)
		level   doctor.Level
		want    []string // all of the level, by their beginnings
	}{
		"no keeper": {without: "keeper", level: doctor.Problem, want: []string{
			"keepers: no keeper has been heard for 15s of shards 0, 1", "fanouts: viewers see unknown in shard 0: keeper_silent", "fanouts: viewers see unknown in shard 1",
		}},
		"no fanout":       {without: "fanout", level: doctor.Problem, want: []string{"fanouts: nobody answers viewers"}},
		"no edge":         {without: "edge", level: doctor.Note, want: []string{"edges: no edge has a lease: nobody is connected", "servers:"}},
		"a fanout frozen": {harm: func(s *scene) { s.fanout.Link.Freeze() }, level: doctor.Problem, want: []string{"fanouts: no answer to a viewer"}},
		"a keeper's death leaves leases": {harm: func(s *scene) {
			s.keeper.Kill()
			s.edge.Link.Cut()
			// Not much later the store itself ends the record.
			s.At(s.Renewed("g1", "ada") + s.Params.LeaseTTL + s.Params.Sweep + s.Params.Outage + time.Second)
		}, level: doctor.Problem, want: []string{
			"edges: leases are over and have not been ended: g1 (renewed 2m", "keepers: no keeper", "fanouts: viewers see unknown", "fanouts: viewers see unknown",
		}},
		"a stream expires too soon": {harm: func(s *scene) {
			s.change(s.Names.BeatsStream(1), func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
		}, level: doctor.Problem, want: []string{"streams: stream " + "PRESENCE_BEATS_1 is configured differently"}},
		"the store is full": {harm: func(s *scene) {
			s.Fill(2 << 20)
			s.At(s.Now() + 30*time.Second)
		}, level: doctor.Problem, want: []string{
			"storage: the store is full and refuses writes (", "keepers: no keeper", "fanouts: viewers see unknown in shard 0: keeper_silent", "fanouts: viewers see unknown",
		}},
		"a bucket is lost": {harm: func(s *scene) {
			if err := s.JS.DeleteKeyValue(s.T.Context(), s.Names.InterestBucket(1)); err != nil {
				s.T.Fatal(err)
			}
		}, level: doctor.Problem, want: []string{"streams: bucket presence_interest_1 is missing"}},
		"a bucket leaves no markers": {harm: func(s *scene) {
			s.change(subjects.KVStream(s.Names.InterestBucket(0)), func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 0 })
		}, level: doctor.Problem, want: []string{
			"streams: bucket presence_interest_0 is configured differently", "expiry: bucket presence_interest_0: a key that expires leaves no trace",
		}},
		"a reader stalls": {harm: func(s *scene) { s.stall(s.Names.BeatsStream(1), 10_001) }, level: doctor.Warning, want: []string{
			"readers: stalled of stream " + "PRESENCE_BEATS_1 is 10001 messages behind",
		}},
		"a reader is just not stalled": {harm: func(s *scene) { s.stall(s.Names.BeatsStream(1), 10_000) }, level: doctor.Warning},
		"one lost renewal ends a lease": {
			options: e2e.Options{Params: func() rollcall.Params {
				p := rollcall.Default()
				p.LeaseTTL = p.LongestRenewal() + 5*time.Second
				return p
			}()},
			level: doctor.Warning, want: []string{"timing: lease_ttl", "timing: outage"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := stage(t, test.options, test.without)
				if test.harm != nil {
					test.harm(s)
				}
				found, err := s.examine()
				if err != nil {
					t.Error(err)
				}
				got := found[test.level]
				for _, want := range test.want {
					if !takeOut(&got, want) {
						t.Errorf("not found: %s\nin %s", want, strings.Join(found[test.level], "\n"))
					}
				}
				if len(got) > 0 {
					t.Errorf("found too: %s", strings.Join(got, "\n"))
				}
			})
		})
	}
}

// takeOut removes a text with that beginning.
func takeOut(from *[]string, beginning string) bool {
	for i, text := range *from {
		if strings.HasPrefix(text, beginning) {
			*from = append((*from)[:i:i], (*from)[i+1:]...)
			return true
		}
	}
	return false
}

func TestNoFabric(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		found := make(map[doctor.Level]string)
		err := doctor.Examine(t.Context(), lab.Connect(t, server.NewLink()), doctor.Config{}, func(f doctor.Finding) {
			found[f.Level] += fmt.Sprintln(f.Check, f.Text)
		})
		if !errors.Is(err, doctor.ErrHopeless) || !strings.Contains(found[doctor.Problem], "fabric") {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// A store whose leader's clock is off is as right as any; who differs from us is told.
func TestClocks(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage(t, e2e.Options{}, "")
		s.Server.Skew(5 * time.Second)
		s.At(s.Now() + time.Second)
		found, err := s.examine()
		got := found[doctor.Note]
		if err != nil || len(found[doctor.Problem]) > 0 || !takeOut(&got, "clocks: this machine's clock is 5s off") {
			t.Errorf("%v, %v", found, err)
		}
	})
}
