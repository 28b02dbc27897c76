package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
)

// storm measures what viewers are told when an edge crashes and all its users expire,
// and how fast it can be told.
//
// As it is: the fanout tells each viewer its first change at once and whatever else
// happened a window later, so it sends in waves and rests between them. Messages per
// viewer, the time to the last change and the memory are of these rounds. So is a
// rate, which counts the waves and not the rests, but says little of the fanout: a
// wave follows the store, which takes two records of each user meanwhile.
//
// As fast as it can be told: on one fabric all the users leave, come back, leave again.
// The fanout's window is so long that the store is at rest when it ends, and it begins
// for all viewers at the same instant, because everybody is told of one more user just
// before. So a message for each viewer and shard is due at once. The rate is the
// messages divided by the time in which any of them was due, which is a window after
// the viewer was told of that user, and had not arrived.
//
// Beside it, after each burst and on the same server, the same messages are sent raw:
// byte for byte, on as many subjects and in the same order, by one goroutine for each
// shard on one connection, which is what the fanout has, to as many subscriptions on
// one connection, where the same code reads them and finds the same news. Each becomes
// due after the first as it did before, and is not sent sooner, since the fanout's do not
// become due at quite the same instant. What the raw sender need not do is to find out
// what to say: its bytes lie ready. Before either begins, the process fetches the memory
// that server and reader will need: else whoever comes second would use what the first
// had to fetch, which can take longer than all the rest. Both send once in a burst, and
// the first burst, in which connections and caches are new to both, does not count.
func (r *runner) storm(ctx context.Context) error {
	lists := pickTargets(r.StormViewers, r.StormTargets, r.StormUsers)
	var figures stormFigures
	for i := range r.stormRounds {
		r.say("storm: round %d of %d, %d users of %d viewers", i+1, r.stormRounds, r.StormUsers, r.StormViewers)
		got, err := r.stormRound(ctx, fmt.Sprintf("bench_storm_%d", i), lists)
		if err != nil {
			return err
		}
		figures.addPaced(got)
	}
	bursts, err := r.bursts(ctx, 1+burstsEach*r.stormRounds, lists)
	if err != nil {
		return err
	}
	for _, got := range bursts[1:] {
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

// burstWindow is more than the store takes for two records of each user.
const burstWindow = 3 * time.Second

// burstsEach is how many bursts count for each round of the rest: one is over within a
// tenth of a second, and a scheduler's whim is much of that.
const burstsEach = 8

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
	span           time.Duration // in which the views were written
	last           time.Duration // from the first view written to the last change told
	hold           time.Duration // the longest that the fanout may hold a change back
	heap, resident peak
}

// A burst is what came of one crash, or return, that all viewers were told at once.
type burst struct {
	haul
	backlog  time.Duration // see [backlog]
	spread   time.Duration // in which messages became due
	busy     time.Duration // of all processors, meanwhile; 0 if not known
	core     time.Duration // the backlog of the same messages, sent raw
	coreBusy time.Duration
}

// stormRound raises a fabric, lets an edge with all the users crash, and waits until
// every viewer has been told that all its targets are offline.
func (r *runner) stormRound(ctx context.Context, name string, lists [][]int) (stormRound, error) {
	st, err := r.raise(ctx, name, cast{params: stormParams(), edges: 1})
	if err != nil {
		return stormRound{}, err
	}
	defer st.strike()
	crash, err := st.connectDoomed(r.StormUsers)
	if err != nil {
		return stormRound{}, err
	}
	defer crash()
	o, err := st.onlookersOf(r.StormUsers, 0, lists)
	if err != nil {
		return stormRound{}, err
	}
	got, err := st.watchStorm(o, crash)
	got.hold = fanout.LongestHold(st.longestList(lists), fanout.DefaultWindow)
	return got, err
}

// bursts raises a fabric and lets all users leave and come back, over and over.
func (r *runner) bursts(ctx context.Context, times int, lists [][]int) (all []burst, err error) {
	st, err := r.raise(ctx, "bench_burst", cast{params: stormParams(), edges: 1, window: burstWindow})
	if err != nil {
		return nil, err
	}
	defer st.strike()
	align, err := st.connectMarkers(r.StormUsers)
	if err != nil {
		return nil, err
	}
	users := &flock{edge: st.edges[0], users: r.StormUsers}
	if err := users.toggle(); err != nil {
		return nil, err
	}
	if err := st.allOnline(r.StormUsers + len(align)); err != nil {
		return nil, err
	}
	o, err := st.onlookersOf(r.StormUsers, len(align), lists)
	if err != nil {
		return nil, err
	}
	raw, err := st.newRawStorm(o)
	if err != nil {
		return nil, err
	}
	for tries := 0; len(all) < times; tries++ {
		if tries == 3*times {
			return nil, fmt.Errorf("the store took longer than %s for %d users, over and over", burstWindow, r.StormUsers)
		}
		r.say("storm: %d of %d, all at once", len(all)+1, times)
		if err := o.alert(align); err != nil {
			return nil, err
		}
		o.record(true)
		if err := users.toggle(); err != nil {
			return nil, err
		}
		got, whole, err := st.watchBurst(o, raw, users.standing())
		if err != nil {
			return nil, err
		}
		if whole {
			all = append(all, got)
		}
	}
	return all, nil
}

// A flock is the users of a burst.
type flock struct {
	edge  *edge.Node
	users int
	conns []*edge.Conn // none while they are gone
}

// toggle has all of them leave, or come back.
func (f *flock) toggle() error {
	if len(f.conns) > 0 {
		for _, c := range f.conns {
			c.Close()
		}
		f.conns = nil
		return nil
	}
	for i := range f.users {
		conn, err := f.edge.Connect(userName(i), "phone", inUse())
		if err != nil {
			return err
		}
		f.conns = append(f.conns, conn)
	}
	return nil
}

func (f *flock) standing() standing {
	if len(f.conns) > 0 {
		return online
	}
	return offline
}

// watchBurst measures until the last viewer has the last state, and again as it is sent
// raw. If the store was so slow that not all were told at once, whole is false.
func (st *stage) watchBurst(o *onlookers, raw *rawStorm, to standing) (got burst, whole bool, err error) {
	got.busy, err = o.burst(to, burstWindow)
	arrivals := o.recorded()
	if err != nil {
		return got, false, err
	}
	if whole = !repeats(arrivals); whole {
		due := o.due(arrivals, burstWindow)
		dues := make([]time.Duration, len(arrivals))
		for i, a := range arrivals {
			dues[i] = due(a)
		}
		first := slices.Min(dues)
		got.haul, got.backlog, got.spread = total([]wave{arrivals}), backlog(arrivals, due), slices.Max(dues)-first
		got.core, got.coreBusy, err = raw.replay(arrivals, to, func(a arrival) time.Duration { return due(a) - first })
	}
	if err == nil {
		err = pause(st.ctx, burstWindow)
	}
	return got, whole, errors.Join(err, o.sound())
}

// repeats says whether a viewer heard more than once of a shard.
func repeats(arrivals []arrival) bool {
	type stream struct{ viewer, shard int }
	heard := make(map[stream]bool, len(arrivals))
	for _, a := range arrivals {
		heard[stream{a.viewer, a.shard}] = true
	}
	return len(heard) < len(arrivals)
}

// connectDoomed connects the users to an edge that can be made to crash, and waits
// until viewers can know.
func (st *stage) connectDoomed(users int) (crash func(), err error) {
	ctx, crash := context.WithCancel(st.ctx)
	node, err := st.startEdgeUntil(ctx, "doomed")
	for i := 0; i < users && err == nil; i++ {
		_, err = node.Connect(userName(i), "phone", inUse())
	}
	if err == nil {
		err = st.allOnline(users)
	}
	if err != nil {
		crash()
	}
	return crash, err
}

// allOnline waits until so many users are online and viewers can know.
func (st *stage) allOnline(users int) error {
	err := await(st.ctx, "all users online", func() bool { return st.keeper.Stats().Online == users })
	if err == nil {
		_, err = st.settled(st.ctx) // by then the fanout has read the last view too
	}
	return err
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
func (st *stage) watchStorm(o *onlookers, crash func()) (got stormRound, err error) {
	before, err := st.viewsWritten()
	if err != nil {
		return got, err
	}
	first, err := st.firstView()
	if err != nil {
		return got, err
	}
	runtime.GC() // so that the peak is the storm's
	o.record(false)
	memory := watchMemory(st.ctx)
	crash()
	err = o.await(offline)
	got.heap, got.resident = memory()
	arrivals := o.recorded()
	if err != nil {
		return got, err
	}
	got.waves = wavesOf(arrivals)
	got.last = o.begin.Add(arrivals[len(arrivals)-1].at).Sub(first())
	got.span, err = st.offlineWritten(before, o.users)
	return got, errors.Join(err, o.sound())
}
