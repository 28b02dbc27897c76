package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
)

// storm measures what viewers are told when an edge crashes and all its users expire,
// twice: as it is, and as fast as it can be told.
//
// As it is: the fanout tells each viewer its first change at once and whatever else
// happened a window later, so it sends in waves and rests between them. Messages per
// viewer, the time to the last change and the memory are of these rounds. So is a
// rate, which counts the waves and not the rests, but says little of the fanout: a
// wave follows the store, which takes two records of each user meanwhile.
//
// As fast as it can be told: the fanout's window is so long that the storm has passed
// and the store is at rest when it ends, and it begins for all viewers at the same
// instant, because everybody is told of one more user just before the crash. So the
// whole storm, a message for each viewer and shard, is due at once. The rate is the
// messages divided by the time in which any of them was due, which is a window after
// the viewer was told of that user, and had not arrived.
//
// Beside it, in the same round and on the same server, the same messages are sent raw:
// byte for byte, on as many subjects and in the same order, by one goroutine for each
// shard on one connection, which is what the fanout has, to as many subscriptions on
// one connection, where the same code reads them and finds the same news. Each becomes
// due after the first as it did before, and is not sent sooner, since the fanout's do not
// become due at quite the same instant. What the raw sender need not do is to find out
// what to say: its bytes lie ready. Before either begins, the process fetches the memory that server and
// reader will need: else whoever comes second would use what the first had to fetch,
// which can take longer than all the rest.
func (r *runner) storm(ctx context.Context) error {
	lists := pickTargets(r.StormViewers, r.StormTargets, r.StormUsers)
	var figures stormFigures
	for i := range r.stormRounds {
		r.say("storm: round %d of %d, %d users of %d viewers", i+1, r.stormRounds, r.StormUsers, r.StormViewers)
		got, err := r.stormRound(ctx, fmt.Sprintf("bench_storm_%d", i), fanout.DefaultWindow, lists)
		if err != nil {
			return err
		}
		figures.addPaced(got)
		r.say("storm: round %d of %d, all at once", i+1, r.stormRounds)
		if got, err = r.stormRound(ctx, fmt.Sprintf("bench_burst_%d", i), burstWindow(), lists); err != nil {
			return err
		}
		figures.addBurst(got)
	}
	r.figures.Storm = figures.sum(r.StormViewers)
	return r.sound()
}

// stormParams let a crash be found within seconds. One renewal may be lost.
// Connections need no heartbeats.
func stormParams() rollcall.Params {
	p := patientParams()
	p.Renewal, p.LeaseTTL, p.Sweep = time.Second, 2500*time.Millisecond, 500*time.Millisecond
	p.Debounce, p.Outage = 500*time.Millisecond, 1250*time.Millisecond
	return p
}

// burstWindow is when a storm has passed for sure, with some seconds for the store.
func burstWindow() time.Duration { return stormParams().Bounds().EdgeCrash.Latest + 3*time.Second }

// pickTargets draws each viewer's targets, the same in every run.
func pickTargets(viewers, targets, users int) [][]int {
	random := rand.New(rand.NewPCG(1, 2))
	lists := make([][]int, viewers)
	for i := range lists {
		lists[i] = random.Perm(users)[:targets]
	}
	return lists
}

// A stormRound is what came of one crash.
type stormRound struct {
	waves          []wave
	backlog        time.Duration // see [backlog]; of a burst alone
	spread         time.Duration // in which messages became due; of a burst alone
	busy           time.Duration // of all processors, meanwhile; of a burst alone, 0 if not known
	core           Rate          // of the same messages, sent raw; of a burst alone
	coreBusy       time.Duration // for one of them
	span           time.Duration // in which the views were written
	last           time.Duration // from the first view written to the last change told
	hold           time.Duration // the longest that the fanout may hold a change back
	heap, resident peak
}

// stormRound raises a fabric, lets an edge with all the users crash, and waits until
// every viewer has been told that all its targets are offline.
func (r *runner) stormRound(ctx context.Context, name string, window time.Duration, lists [][]int) (stormRound, error) {
	st, err := r.raise(ctx, name, cast{params: stormParams(), edges: 1, window: window})
	if err != nil {
		return stormRound{}, err
	}
	defer st.strike()
	var align []*edge.Conn
	if window != fanout.DefaultWindow {
		if align, err = st.connectMarkers(r.StormUsers); err != nil {
			return stormRound{}, err
		}
	}
	crash, err := st.connectDoomed(r.StormUsers, len(align))
	if err != nil {
		return stormRound{}, err
	}
	defer crash()
	o, err := st.onlookersOf(r.StormUsers, len(align), lists)
	if err != nil {
		return stormRound{}, err
	}
	if err := o.alert(align); err != nil {
		return stormRound{}, err
	}
	got, err := st.watchStorm(o, crash, window)
	if err != nil {
		return got, err
	}
	got.hold = fanout.LongestHold(st.longestList(lists), window)
	if len(align) == 0 {
		return got, nil
	}
	raw, err := st.newRawStorm(o)
	if err != nil {
		return got, err
	}
	arrivals := slices.Concat(got.waves...)
	due := o.due(arrivals, window)
	got.backlog = backlog(arrivals, due)
	dues := make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		dues[i] = due(a)
	}
	got.spread = slices.Max(dues) - slices.Min(dues)
	got.core, got.coreBusy, err = raw.replays(arrivals, due)
	debug.FreeOSMemory() // what was fetched is not the next storm's
	return got, err
}

// connectDoomed connects the users to an edge that can be made to crash, and waits
// until viewers can know.
func (st *stage) connectDoomed(users, others int) (crash func(), err error) {
	ctx, crash := context.WithCancel(st.ctx)
	node, err := st.startEdgeUntil(ctx, "doomed")
	for i := 0; i < users && err == nil; i++ {
		_, err = node.Connect(userName(i), "phone", inUse())
	}
	if err == nil {
		err = await(st.ctx, "all users online", func() bool { return st.keeper.Stats().Online == users+others })
	}
	if err == nil {
		_, err = st.settled(st.ctx) // by then the fanout has read the last view too
	}
	if err != nil {
		crash()
	}
	return crash, err
}

// connectMarkers connects a further user of each shard to the edge that stays.
func (st *stage) connectMarkers(users int) ([]*edge.Conn, error) {
	var conns []*edge.Conn
	for _, user := range st.markers(users) {
		conn, err := st.edges[0].Connect(userName(user), "phone", inUse())
		if err != nil {
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// markers are the first user of each shard behind the given ones.
func (st *stage) markers(users int) []int {
	found := make([]int, st.Shards())
	for i, left := users, len(found); left > 0; i++ {
		if shard := st.Shard(userName(i)); found[shard] == 0 {
			found[shard] = i
			left--
		}
	}
	return found
}

// longestList is the most targets that any viewer has in one shard.
func (st *stage) longestList(lists [][]int) (longest int) {
	for _, list := range lists {
		in := make([]int, st.Shards())
		for _, user := range list {
			shard := st.Shard(userName(user))
			in[shard]++
			longest = max(longest, in[shard])
		}
	}
	return longest
}

// watchStorm measures until the last viewer has the last state.
func (st *stage) watchStorm(o *onlookers, crash func(), window time.Duration) (got stormRound, err error) {
	before, err := st.viewsWritten()
	if err != nil {
		return got, err
	}
	first, err := st.firstView()
	if err != nil {
		return got, err
	}
	runtime.GC()             // so that the peak is the storm's
	o.record(o.markers != 0) // only a burst is sent again
	if o.markers > 0 {
		crash()
		got.busy, err = o.burst(window)
	} else {
		memory := watchMemory(st.ctx) // which takes time that a burst's rate would show
		crash()
		err = o.await(offline)
		got.heap, got.resident = memory()
	}
	arrivals := o.recorded()
	if err != nil {
		return got, err
	}
	got.waves = wavesOf(arrivals)
	got.last = o.begin.Add(arrivals[len(arrivals)-1].at).Sub(first())
	got.span, err = st.offlineWritten(before, o.users)
	return got, errors.Join(err, o.sound())
}
