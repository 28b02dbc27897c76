package fanout_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

var (
	consistencies    = flag.Int("consistencies", 4, "how many random histories TestConsistency plays")
	firstConsistency = flag.Uint64("consistency", 1, "the seed of the first of them")
)

// Snapshot plus events is the trimmed truth after every quiet moment: on the real server,
// with clients whose links freeze, break and are slow, fanouts that crash and take over,
// and policies that change. Versions only grow, whatever happens.
func TestConsistency(t *testing.T) {
	testConsistency(t, *consistencies, func(s *stage.Stage) service { return &soloist{s, s.Start(fanout.Config{})} })
}

// So it is with several fanouts that hang, are cut off, killed and restarted, and between which
// shards move. Who among them is whose home is different every time.
func TestConsistencyOfSeveralFanouts(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n, " fanouts"), func(t *testing.T) {
			testConsistency(t, (*consistencies+1)/2, func(s *stage.Stage) service { return newEnsemble(s, n) })
		})
	}
}

func testConsistency(t *testing.T, histories int, start func(*stage.Stage) service) {
	for i := range histories {
		seed := *firstConsistency + uint64(i)
		t.Run(fmt.Sprint("history ", seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				p := newPlay(t, seed, start)
				for range 8 {
					for range 20 {
						p.act()
					}
					p.quiet()
				}
			})
		})
	}
}

// A play is a random history and the truth of it.
type play struct {
	t      *testing.T
	s      *stage.Stage
	random *rand.Rand
	fanout service
	clerk  *clerk
	people []string
	views  map[string]fanout.View
	seats  []*seat
}

// A service is what the fabric has of fanouts, and what happens to them.
type service interface {
	suffer(random *rand.Rand)
	recover()
}

// A soloist is a fanout that owns everything.
type soloist struct {
	s *stage.Stage
	*stage.Running
}

func (o *soloist) suffer(random *rand.Rand) {
	if random.IntN(2) == 0 {
		o.Link.Delay(time.Duration(random.IntN(80)) * time.Millisecond) // a change of groups takes many round trips
		return
	}
	if random.IntN(2) == 0 { // else it is taken over while it runs
		o.Crash()
		time.Sleep(time.Duration(random.IntN(40)) * time.Second)
	}
	o.Running = o.s.Start(fanout.Config{})
}

func (o *soloist) recover() { o.Link.Delay(0) }

// A seat is a client; two of them are of the same viewer.
type seat struct {
	*viewer.Client
	id      string
	link    *lab.Link
	nc      *nats.Conn
	watched map[string]bool

	mu       sync.Mutex
	versions map[string]uint64
	backward []string
}

func newPlay(t *testing.T, seed uint64, start func(*stage.Stage) service) *play {
	p := &play{
		t: t, s: stage.New(t, 2), random: rand.New(rand.NewPCG(seed, 3)), views: make(map[string]fanout.View),
		people: []string{"ann", "bob", "carl", "dora", "nobody", "vera"},
	}
	p.fanout = start(p.s)
	p.clerk = newClerk(p.s)
	for _, id := range []string{"vera", "vera", "wim"} {
		p.sit(id)
	}
	return p
}

func (p *play) sit(id string) {
	seat := &seat{id: id, link: p.s.Server.NewLink(), watched: make(map[string]bool), versions: make(map[string]uint64)}
	seat.nc = lab.Connect(p.t, seat.link)
	client, err := viewer.New(seat.nc, viewer.Config{Viewer: id})
	if err != nil {
		p.t.Fatal(err)
	}
	seat.Client = client
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { client.Run(ctx) })
	running.Go(seat.read)
	p.t.Cleanup(func() { cancel(); running.Wait() })
	p.seats = append(p.seats, seat)
}

// read holds versions to growing.
func (s *seat) read() {
	for c := range s.Changes() {
		s.mu.Lock()
		if last := s.versions[c.Target]; c.View.Version < last {
			s.backward = append(s.backward, fmt.Sprintf("%s from %d to %d", c.Target, last, c.View.Version))
		}
		s.versions[c.Target] = c.View.Version
		s.mu.Unlock()
	}
}

func (p *play) person() string { return p.people[p.random.IntN(len(p.people))] }

func (p *play) act() {
	seat := p.seats[p.random.IntN(len(p.seats))]
	switch p.random.IntN(14) {
	case 0, 1, 2:
		p.live()
	case 3, 4, 5:
		p.policy()
	case 6, 7:
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		target := p.person()
		if p.random.IntN(3) > 0 {
			seat.watched[target] = true
			seat.Watch(ctx, target) // unanswered, it is watched all the same
		} else {
			delete(seat.watched, target)
			seat.Unwatch(ctx, target)
		}
	// A handshake over a link that is slow or frozen would hold the connection's lock, and
	// whoever waits for that stops virtual time.
	case 8:
		seat.link.Delay(0)
		seat.link.Cut()
	case 9:
		if seat.nc.IsConnected() {
			seat.link.Freeze()
			time.Sleep(time.Duration(p.random.IntN(5000)) * time.Millisecond)
			seat.link.Thaw()
		}
	case 10:
		if seat.nc.IsConnected() {
			seat.link.Delay(time.Duration(p.random.IntN(3000)) * time.Millisecond)
		}
	case 11:
		seat.link.Heal()
	case 12, 13:
		p.fanout.suffer(p.random)
	}
	time.Sleep([]time.Duration{0, 20 * time.Millisecond, time.Second, time.Duration(p.random.IntN(90)) * time.Second}[p.random.IntN(4)])
}

// live publishes another state of somebody.
func (p *play) live() {
	user := p.person()
	if user == "nobody" {
		return
	}
	record := p.s.View(rollcall.State(p.random.IntN(4)))
	if record.State == 0 {
		record.Seen -= int64(p.random.IntN(30)) * time.Hour.Microseconds()
	}
	p.s.Put(user, record)
	p.views[user] = fanout.View{State: rollcall.State(record.State), Observed: rollcall.Micros(record.Observed), Seen: rollcall.Micros(record.Seen)}
}

// policy changes what somebody shows of itself, except by appearing offline, of which the
// document does not say what is seen.
func (p *play) policy() {
	granularity := new(rollcall.Granularity(p.random.IntN(4)))
	r := subjects.PolicyRequest{}
	op := subjects.PolicyOps[1+p.random.IntN(len(subjects.PolicyOps)-1)]
	switch op {
	case subjects.PolicySet:
		r.Relations = []subjects.Relations{{Contact: granularity}, {Member: granularity}, {Everyone: granularity}}[p.random.IntN(3)]
	case subjects.PolicyAllow:
		r.Granularity = granularity
		fallthrough
	case subjects.PolicyReset, subjects.PolicyBlock, subjects.PolicyUnblock, subjects.PolicyContact, subjects.PolicyUncontact:
		r.Users = []string{p.seats[p.random.IntN(len(p.seats))].id}
	case subjects.PolicyStatus:
		r.Status = &subjects.ManualStatus{Availability: rollcall.Availability(p.random.IntN(3)), Text: "lunch", Priority: p.random.IntN(2)}
		if p.random.IntN(2) == 0 {
			r.Status.Until = time.Now().Add(time.Duration(60+p.random.IntN(100)) * time.Second)
		}
	case subjects.PolicyJoin, subjects.PolicyLeave:
		r.Groups = []string{[]string{"blue", "green"}[p.random.IntN(2)]}
	}
	p.clerk.must(op, p.person(), r)
}

// quiet lets everything arrive and compares.
func (p *play) quiet() {
	p.fanout.recover()
	for _, s := range p.seats {
		s.link.Delay(0)
		s.link.Heal()
	}
	time.Sleep(3 * time.Minute)
	documents := make(map[string]subjects.Policy)
	for _, u := range append(p.people, "wim") {
		documents[u] = p.clerk.must(subjects.PolicyGet, u, subjects.PolicyRequest{})
	}
	for i, s := range p.seats {
		for _, target := range p.people {
			got, shown := s.State(target)
			want, visible := subjects.View{}, false
			if s.watched[target] {
				want, visible = p.truth(s.id, documents[s.id].Groups, documents[target])
			}
			got.View.Version, got.View.ObservedAtMinute, got.View.Target = 0, 0, ""
			want.ObservedAtMinute = 0
			if shown != visible || got.Reason != "" || shown && got.View != want {
				p.t.Fatalf("%s in seat %d sees %s: %v %+v %s, want %v %+v", s.id, i, target, shown, got.View, got.Reason, visible, want)
			}
		}
		s.mu.Lock()
		if len(s.backward) > 0 {
			p.t.Errorf("versions went back: %v", s.backward)
		}
		s.mu.Unlock()
	}
}

// truth is what a viewer is to see, by the target's document and state.
func (p *play) truth(viewer string, groups []string, d subjects.Policy) (subjects.View, bool) {
	g := rollcall.Exact
	pick := func(of *rollcall.Granularity) {
		if g = rollcall.Exact; of != nil {
			g = *of
		}
	}
	override, overridden := d.Overrides[viewer]
	pick(d.Everyone)
	if slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(d.Groups, group) }) {
		pick(d.Member)
	}
	if slices.Contains(d.Contacts, viewer) {
		pick(d.Contact)
	}
	if overridden {
		g = override
	}
	if slices.Contains(d.Blocks, viewer) {
		g = rollcall.Absent
	}
	if d.User == viewer {
		g = rollcall.Exact
	}
	state, exists := p.views[d.User]
	if g == rollcall.Hidden {
		return subjects.View{Status: rollcall.StatusUnknown}, true
	}
	if !exists {
		return subjects.View{}, false
	}
	view, visible := fanout.Trim(state, g, rollcall.MicrosOf(time.Now().Truncate(time.Minute)))
	if g == rollcall.Exact && view.Status == rollcall.StatusOnline && len(d.Statuses) > 0 {
		if a := d.Statuses[0].Availability; a != rollcall.Available {
			view.Availability = a.String()
		}
		view.Text = d.Statuses[0].Text
	}
	return view, visible
}
