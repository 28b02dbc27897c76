package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects"
)

// Onlookers are a crowd of whom every message is noted: who was told what last, and
// when.
type onlookers struct {
	*crowd
	begin   time.Time
	users   int
	lists   [][]int // the targets of each viewer
	markers int     // users behind them whom everybody watches, one of each shard
	marked  atomic.Int64
	alerts  int

	viewers map[string]int // by subscription

	complete [standings]atomic.Int64 // viewers who were told so of all their targets
	strays   atomic.Int64            // changes that nobody was to be told

	mu        sync.Mutex
	alerted   []time.Duration // by viewer and shard: when it was told of the marker
	told      []standing      // by viewer and user
	holds     [][standings]int
	recording bool
	keeping   bool // what the messages say
	arrivals  []arrival
}

// A standing is what a viewer was told of a user last.
type standing uint8

const (
	barred standing = iota // not one of the viewer's targets
	untold
	online
	offline
	standings
)

func (s standing) String() string { return [...]string{"barred", "untold", "online", "offline"}[s] }

// userName has a number of fixed length, so that a receiver reads it at once.
func userName(i int) string { return fmt.Sprintf("user-%07d", i) }

const (
	userPrefix = "user-"
	userDigits = 7
)

// newOnlookers notes; the caller subscribes them.
func newOnlookers(users, markers int, lists [][]int) *onlookers {
	o := &onlookers{
		begin: time.Now(), users: users, markers: markers, lists: lists, viewers: make(map[string]int, len(lists)),
		alerted: make([]time.Duration, len(lists)*markers), told: make([]standing, len(lists)*users), holds: make([][standings]int, len(lists)),
	}
	for viewer, list := range lists {
		for _, user := range list {
			o.told[viewer*users+user] = untold
		}
		o.holds[viewer][untold] = len(list)
	}
	return o
}

// onlookersOf subscribes a viewer for each list, and to the markers, and finds in the
// answers that all the targets are online.
func (st *stage) onlookersOf(users, markers int, lists [][]int) (*onlookers, error) {
	o := newOnlookers(users, markers, lists)
	o.crowd = &crowd{st: st, hear: o.note, met: o.meet}
	names := make([][]string, len(lists))
	for i, list := range lists {
		o.viewers[st.ViewEventsAll(viewerName(i))] = i
		for _, user := range list {
			names[i] = append(names[i], userName(user))
		}
		for _, user := range st.markers(users)[:markers] {
			names[i] = append(names[i], userName(user))
		}
	}
	if err := o.assemble(names); err != nil {
		return nil, err
	}
	return o, o.await(online)
}

// meet takes an answer in.
func (o *onlookers) meet(viewer int, reply subjects.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, shard := range reply.Shards {
		for _, v := range shard.Views {
			user, err := strconv.Atoi(strings.TrimPrefix(v.Target, userPrefix))
			if err != nil || v.Status != rollcall.StatusOnline {
				o.strays.Add(1)
			} else if user < o.users {
				o.holdLocked(viewer, user, online)
			}
		}
	}
}

// alert has every viewer told of the markers, so that their windows begin now.
func (o *onlookers) alert(markers []*edge.Conn) error {
	o.marked.Store(0)
	o.alerts++
	for _, conn := range markers {
		state := inUse()
		state.Activity = fmt.Sprint("marked ", o.alerts)
		if err := conn.SetState(state); err != nil {
			return err
		}
	}
	all := int64(len(markers) * len(o.lists))
	return await(o.st.ctx, "the markers", func() bool { return o.marked.Load() == all })
}

// note takes a message in. It reads as much as it needs, because the reader shares
// the cores with what is measured.
func (o *onlookers) note(m *nats.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	viewer, rest, changes := o.viewers[m.Sub.Subject], m.Data, 0
	for {
		at := bytes.Index(rest, entry)
		if at < 0 {
			break
		}
		rest = rest[at+len(entry):]
		user, now := readChange(rest)
		changes++
		if user >= o.users && o.markers > 0 {
			o.alerted[viewer*o.markers+shardOf(m.Subject)] = time.Since(o.begin)
			o.marked.Add(1)
			continue
		}
		o.holdLocked(viewer, user, now)
	}
	if changes == 0 {
		return // a position only
	}
	if o.recording {
		a := arrival{at: time.Since(o.begin), viewer: viewer, shard: shardOf(m.Subject), bytes: len(m.Data), changes: changes}
		if o.keeping {
			a.data = m.Data
		}
		o.arrivals = append(o.arrivals, a)
	}
	o.messages.Add(1)
}

// record begins to note arrivals, and to keep what the messages say if that is wanted.
func (o *onlookers) record(keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recording, o.keeping, o.arrivals = true, keep, nil
}

// recorded ends that and returns the arrivals.
func (o *onlookers) recorded() []arrival {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recording = false
	return o.arrivals
}

// assume makes all targets of all viewers what they were told to be.
func (o *onlookers) assume(s standing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for viewer, list := range o.lists {
		for _, user := range list {
			o.told[viewer*o.users+user] = s
		}
		o.holds[viewer] = [standings]int{}
		o.holds[viewer][s] = len(list)
	}
	for i := range o.complete {
		o.complete[i].Store(0)
	}
	o.complete[s].Store(int64(len(o.lists)))
}

// readChange reads the user and the status behind an entry; what does not look like
// them is nobody.
func readChange(b []byte) (user int, now standing) {
	const (
		begin = len(`"` + userPrefix)
		end   = begin + userDigits
	)
	if len(b) < end {
		return -1, barred
	}
	for _, c := range b[begin:end] {
		user = 10*user + int(c-'0')
	}
	switch {
	case bytes.HasPrefix(b[end:], []byte(`","status":"offline"`)):
		return user, offline
	case bytes.HasPrefix(b[end:], []byte(`","status":"online"`)):
		return user, online
	}
	return -1, barred
}

// holdLocked replaces what a viewer was told of a user.
func (o *onlookers) holdLocked(viewer, user int, now standing) {
	if user < 0 || user >= o.users {
		o.strays.Add(1)
		return
	}
	last := &o.told[viewer*o.users+user]
	if *last == barred || *last == now {
		o.strays.Add(1)
		return
	}
	of, all := &o.holds[viewer], len(o.lists[viewer])
	if of[*last]--; of[*last] == all-1 {
		o.complete[*last].Add(-1)
	}
	if of[now]++; of[now] == all {
		o.complete[now].Add(1)
	}
	*last = now
}

// shardOf is the last token of a subject.
func shardOf(subject string) int {
	shard, err := strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:])
	if err != nil {
		panic("bench: no shard in " + subject)
	}
	return shard
}

// due is when messages became due that the fanout held back since it told their viewers
// of the markers. The markers' way is counted too; but no message is here before it is
// due, so the way of all was as long at least as it must have been for any.
func (o *onlookers) due(arrivals []arrival, window time.Duration) func(arrival) time.Duration {
	seems := func(a arrival) time.Duration { return o.alerted[a.viewer*o.markers+a.shard] + window }
	var way time.Duration
	for _, a := range arrivals {
		way = max(way, seems(a)-a.at)
	}
	return func(a arrival) time.Duration { return seems(a) - way }
}

// burst fetches memory before the messages become due that the fanout holds back, awaits
// them, and returns how long processors were busy with them; zero if fetching took too
// long to tell.
func (o *onlookers) burst(to standing, window time.Duration) (busy time.Duration, err error) {
	const (
		ahead   = 1500 * time.Millisecond // time to fetch memory
		earlier = 50 * time.Millisecond   // they are due a little before it seems so
	)
	first := o.begin.Add(slices.Min(o.alerted) + window - earlier)
	if err := pause(o.st.ctx, time.Until(first)-ahead); err != nil {
		return 0, err
	}
	fetchMemory()
	late := time.Now().After(first)
	if err := pause(o.st.ctx, time.Until(first)); err != nil {
		return 0, err
	}
	before := processorTime()
	if err := o.await(to); err != nil || late {
		return 0, err
	}
	return processorTime() - before, nil
}

// await waits until every viewer was told the same of all its targets.
func (o *onlookers) await(s standing) error {
	all := int64(len(o.lists))
	err := await(o.st.ctx, "all "+s.String(), func() bool { return o.complete[s].Load() == all })
	if err != nil && o.st.ctx.Err() == nil {
		err = fmt.Errorf("%d of %d viewers have all their targets %s: %w", o.complete[s].Load(), all, s, err)
	}
	return err
}

// sound fails if viewers were told what they were not to be told, or twice.
func (o *onlookers) sound() error {
	if n := o.strays.Load(); n > 0 {
		return fmt.Errorf("%d changes were told twice, or to the wrong viewer", n)
	}
	return o.st.sound()
}
