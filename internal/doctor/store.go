package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// server looks at the one that we are connected to.
func (e *examination) server(ctx context.Context) error {
	rtt, err := e.nc.RTT()
	if err != nil {
		e.say("server", Problem, "%s does not answer: %v", e.nc.ConnectedUrlRedacted(), err)
		return ErrHopeless
	}
	version, where := e.nc.ConnectedServerVersion(), e.nc.ConnectedUrlRedacted()
	if cluster := e.nc.ConnectedClusterName(); cluster != "" {
		where += " in the cluster " + cluster
	}
	if !atLeast(version, 2, 11) {
		e.say("server", Problem, "nats-server %s at %s lets no single keys expire; that takes 2.11", version, where)
		return nil
	}
	e.say("server", OK, "nats-server %s at %s, %s away", version, where, rtt.Round(10*time.Microsecond))
	return nil
}

// atLeast compares a version such as 2.12.1-beta; what is none passes.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA != nil || errB != nil || a > major || a == major && b >= minor
}

// account looks at what JetStream grants the account.
func (e *examination) account(ctx context.Context) error {
	info, err := e.js.AccountInfo(ctx)
	if err != nil {
		e.say("storage", Problem, "JetStream does not answer: %v", err)
		return ErrHopeless
	}
	used, limit := info.Store, uint64(max(info.Limits.MaxStore, 0))
	switch level := fullness(used, limit); {
	case limit == 0:
		e.say("storage", OK, "%s stored, the account has no limit of its own", size(used))
	case level == OK:
		e.say("storage", OK, "%s of the account's %s are used", size(used), size(limit))
	default:
		e.say("storage", level, "%s of the account's %s are used (%d %%)%s", size(used), size(limit), 100*used/limit, aboutToFail)
	}
	return nil
}

// find looks for the fabric.
func (e *examination) find(ctx context.Context) (err error) {
	e.fabric, err = fabric.Lookup(ctx, e.js, e.Prefix)
	if err != nil {
		e.say("fabric", Problem, "%v", err)
		return ErrHopeless
	}
	e.say("fabric", OK, "%q has %s", e.fabric.Prefix(), count(e.fabric.Shards(), "shard"))
	return nil
}

// parameters holds the timing against its rules.
func (e *examination) parameters(context.Context) {
	warnings, err := e.fabric.Params.Validate()
	if err != nil {
		e.say("timing", Problem, "%v", err)
		return
	}
	for _, w := range warnings {
		e.say("timing", Warning, "%s", w)
	}
	if len(warnings) == 0 {
		b := e.fabric.Params.Bounds()
		e.say("timing", OK, "a close shows within %s, a half-open connection within %s, an edge's crash within %s",
			b.Close.Latest, b.HalfOpen.Latest, b.EdgeCrash.Latest)
	}
}

// A stream is one of the fabric's, as its leader tells of it.
type stream struct {
	*jetstream.StreamInfo
	bucket         string // if it is one
	leases         bool   // if it is of edges
	expires        bool   // if it has records that end by themselves
	sent, received time.Time
}

// now is the leader's clock.
func (s stream) now() time.Time { return s.TimeStamp.Add(time.Since(s.received)) }

func (s stream) name() string {
	if s.bucket != "" {
		return "bucket " + s.bucket
	}
	return "stream " + s.Config.Name
}

// streams looks for all streams and buckets, and whether they are as they should be.
func (e *examination) streams(ctx context.Context) error {
	var wrong []string
	kept := 0
	_, err := fabric.Ensure(ctx, e.js, fabric.Config{
		Prefix: e.fabric.Prefix(), Unchecked: true, DryRun: true,
		Report: func(what string, done fabric.Done) {
			switch done {
			case fabric.Made:
				wrong = append(wrong, what+" is missing")
			case fabric.Changed:
				wrong = append(wrong, what+" is configured differently")
			default:
				kept++
			}
		},
	})
	if err != nil {
		e.say("streams", Problem, "%v", err)
		return ErrHopeless
	}
	slices.Sort(wrong)
	for _, text := range wrong {
		e.say("streams", Problem, "%s; 'rollcall init' repairs that", text)
	}
	if len(wrong) == 0 {
		e.say("streams", OK, "%d streams and buckets are there and configured as they should be", kept)
	}
	return e.collect(ctx)
}

// collect asks every stream's leader.
func (e *examination) collect(ctx context.Context) error {
	f := e.fabric
	for _, bucket := range fabric.GroupBuckets(f.Names) {
		e.ask(ctx, stream{bucket: bucket}, "")
	}
	for shard := range f.Shards() {
		e.ask(ctx, stream{bucket: f.LeasesBucket(shard), leases: true, expires: true}, "")
		e.ask(ctx, stream{bucket: f.ViewsBucket(shard), expires: true}, "")
		e.ask(ctx, stream{bucket: f.InterestBucket(shard), expires: true}, "")
		e.ask(ctx, stream{}, f.LogStream(shard))
		e.ask(ctx, stream{}, f.BeatsStream(shard))
	}
	return ctx.Err()
}

func (e *examination) ask(ctx context.Context, s stream, name string) {
	if s.bucket != "" {
		name = subjects.KVStream(s.bucket)
	}
	s.sent = time.Now()
	found, err := e.js.Stream(ctx, name)
	s.received = time.Now()
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound): // said already
	case err != nil:
		e.say("streams", Problem, "%s does not answer: %v", name, err)
	default:
		s.StreamInfo = found.CachedInfo()
		e.infos = append(e.infos, s)
	}
}

// Limits of clocks: everything that expires is counted by the leader of a shard's log.
const (
	clockWarning = 250 * time.Millisecond
	clockProblem = 2 * time.Second
)

// clocks compares the clocks of the store's leaders with ours.
func (e *examination) clocks(context.Context) {
	type clock struct {
		ahead, margin time.Duration
		server        string
	}
	var all []clock
	for _, s := range e.infos {
		half := s.received.Sub(s.sent) / 2
		c := clock{ahead: s.TimeStamp.Sub(s.sent.Add(half)), margin: half, server: e.nc.ConnectedServerName()}
		if s.Cluster != nil && s.Cluster.Leader != "" {
			c.server = s.Cluster.Leader
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return
	}
	// What the way may explain is no difference, and a slow answer hides none that others show.
	low := slices.MinFunc(all, func(a, b clock) int { return cmp.Compare(a.ahead+a.margin, b.ahead+b.margin) })
	high := slices.MaxFunc(all, func(a, b clock) int { return cmp.Compare(a.ahead-a.margin, b.ahead-b.margin) })
	apart := max(0, high.ahead-high.margin-low.ahead-low.margin)
	servers := map[string]bool{}
	for _, c := range all {
		servers[c.server] = true
	}
	level, text := OK, fmt.Sprintf("the clocks of %s are within %s", count(len(servers), "leader"), round(apart+low.margin+high.margin))
	switch {
	case apart > clockProblem:
		level, text = Problem, fmt.Sprintf("the clock of %s is at least %s ahead of that of %s: leases end too early or too late when a leader changes", high.server, round(apart), low.server)
	case apart > clockWarning:
		level, text = Warning, fmt.Sprintf("the clock of %s is at least %s ahead of that of %s", high.server, round(apart), low.server)
	}
	e.say("clocks", level, "%s", text)
	if own := min(abs(low.ahead)-low.margin, abs(high.ahead)-high.margin); own > clockProblem {
		e.say("clocks", Note, "this machine's clock is %s off the store's; the fabric does not mind", round(own))
	}
}

// consumers looks at who reads the streams, and how far behind.
func (e *examination) consumers(ctx context.Context) {
	const behind = 10_000
	readers, sound := 0, true
	var most uint64
	for _, s := range e.infos {
		found, err := e.js.Stream(ctx, s.Config.Name)
		if err != nil {
			continue // said already
		}
		list := found.ListConsumers(ctx)
		for c := range list.Info() {
			readers++
			most = max(most, c.NumPending)
			if c.NumPending > behind {
				sound = false
				e.say("readers", Warning, "%s of %s is %d messages behind", c.Name, s.name(), c.NumPending)
			}
		}
		if err := list.Err(); err != nil {
			sound = false
			e.say("readers", Note, "readers of %s: %v", s.name(), err)
		}
	}
	if sound {
		e.say("readers", OK, "%s, at most %s behind", count(readers, "reader"), count(int(most), "message"))
	}
}

// size of bytes, for people.
func size(bytes uint64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func join(names []string) string { return strings.Join(names, ", ") }

func abs(d time.Duration) time.Duration { return max(d, -d) }

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
