package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A clerk changes policies over the service.
type clerk struct {
	t  *testing.T
	nc *nats.Conn
	*viewer.Policies
}

func newClerk(s *stage.Stage) *clerk {
	s.T.Helper()
	nc := lab.Connect(s.T, s.Server.NewLink())
	policies, err := viewer.NewPolicies(nc, "")
	if err != nil {
		s.T.Fatal(err)
	}
	return &clerk{s.T, nc, policies}
}

func (c *clerk) must(op subjects.PolicyOp, user string, r subjects.PolicyRequest) subjects.Policy {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	p, err := c.Do(ctx, op, user, r)
	if err != nil {
		c.t.Fatalf("%s of %s: %v", op, user, err)
	}
	return p
}

func about(users ...string) subjects.PolicyRequest { return subjects.PolicyRequest{Users: users} }

func everyone(g rollcall.Granularity) subjects.PolicyRequest {
	return subjects.PolicyRequest{Relations: subjects.Relations{Everyone: &g}}
}

// told is what a raw viewer has heard, as "target status".
func told(v *raw) (all []string) {
	for _, m := range v.heard() {
		for _, c := range m.Changes {
			all = append(all, strings.TrimSpace(c.Target+" "+string(c.Status)+" "+c.Availability))
		}
	}
	slices.Sort(all) // messages of different shards come in any order
	return all
}

func TestAPolicyTakesEffectOnRunningSubscriptions(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		for _, u := range []string{"bob", "vera"} {
			s.Set(u, rollcall.Active)
		}
		f := s.Start(fanout.Config{})
		v, c := newRaw(s, "vera"), newClerk(s)
		v.do(subjects.OpSubscribe, "bob", "vera")
		status := func(a rollcall.Availability, ends time.Duration) subjects.PolicyRequest {
			m := &subjects.ManualStatus{Availability: a}
			if ends > 0 {
				m.Until = time.Now().Add(ends)
			}
			return subjects.PolicyRequest{Status: m}
		}
		coarse := rollcall.Coarse
		for _, step := range []struct {
			op   subjects.PolicyOp
			user string
			r    subjects.PolicyRequest
			want string
		}{
			{subjects.PolicyStatus, "bob", status(rollcall.Away, 0), "[bob online away]"},
			{subjects.PolicyStatus, "bob", status(rollcall.Away, 0), "[]"},
			{subjects.PolicyBlock, "bob", about("vera"), "[bob withdrawn]"},
			{subjects.PolicyUnblock, "bob", about("vera"), "[bob online away]"},
			{subjects.PolicySet, "bob", everyone(rollcall.Hidden), "[bob unknown]"},
			{subjects.PolicyContact, "bob", about("vera"), "[bob online away]"},
			{subjects.PolicyUncontact, "bob", about("vera"), "[bob unknown]"},
			{subjects.PolicyJoin, "bob", subjects.PolicyRequest{Groups: []string{"chess"}}, "[]"},
			{subjects.PolicyJoin, "vera", subjects.PolicyRequest{Groups: []string{"chess"}}, "[bob online away]"},
			{subjects.PolicyLeave, "vera", subjects.PolicyRequest{Groups: []string{"chess"}}, "[bob unknown]"},
			{subjects.PolicyAllow, "bob", subjects.PolicyRequest{Users: []string{"vera"}, Granularity: &coarse}, "[bob online]"},
			{subjects.PolicyClear, "bob", subjects.PolicyRequest{}, "[]"},
			{subjects.PolicyReset, "bob", about("vera"), "[bob unknown]"},
			{subjects.PolicyForget, "bob", subjects.PolicyRequest{}, "[bob online]"},
			{subjects.PolicyStatus, "bob", status(rollcall.Invisible, time.Minute), "[bob offline]"},
			{subjects.PolicyStatus, "vera", status(rollcall.Invisible, time.Minute), "[vera online invisible]"},
		} {
			c.must(step.op, step.user, step.r)
			time.Sleep(time.Second)
			if got := fmt.Sprint(told(v)); got != step.want {
				t.Errorf("%s of %s told %s, want %s", step.op, step.user, got, step.want)
			}
		}
		time.Sleep(time.Minute)
		v.do(subjects.OpRefresh)
		if got := fmt.Sprint(told(v)); got != "[bob online vera online]" {
			t.Errorf("the ends of what they said told %s", got)
		}
		c.must(subjects.PolicySet, "bob", everyone(rollcall.Coarse))
		f.Crash()
		s.Start(fanout.Config{})
		if got := views(newRaw(s, "other").do(subjects.OpGet, "bob"))["bob"]; got.State != "" || got.Status != rollcall.StatusOnline {
			t.Errorf("after a restart %+v", got)
		}
	})
}

func TestAnAnsweredPolicyIsInEffect(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 2)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{})
		v, c := newRaw(s, "vera"), newClerk(s)
		for range 50 {
			c.must(subjects.PolicyBlock, "bob", about("vera"))
			if got := views(v.do(subjects.OpGet, "bob")); len(got) != 0 {
				t.Fatalf("blocked, and sees %+v", got)
			}
			c.must(subjects.PolicyUnblock, "bob", about("vera"))
			if got := views(v.do(subjects.OpGet, "bob")); len(got) != 1 {
				t.Fatal("unblocked, and sees nothing")
			}
			time.Sleep(time.Second)
		}
	})
}

func TestBadPolicyRequests(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Start(fanout.Config{})
		c := newClerk(s)
		for _, row := range []struct {
			op   subjects.PolicyOp
			body string
			want subjects.Code
		}{
			{subjects.PolicyBlock, `{`, subjects.CodeInvalidRequest},
			{subjects.PolicyBlock, `{}`, subjects.CodeInvalidRequest},
			{subjects.PolicyBlock, `{"user":["eve"]}`, subjects.CodeInvalidRequest},
			{subjects.PolicyBlock, `{"users":["eve"]} {}`, subjects.CodeInvalidRequest},
			{subjects.PolicyBlock, `{"users":["eve"],"granularity":"exact"}`, subjects.CodeInvalidRequest},
			{subjects.PolicyBlock, `{"users":[""]}`, subjects.CodeInvalidID},
			{subjects.PolicyBlock, `{"users":["` + strings.Repeat("x", 129) + `"]}`, subjects.CodeInvalidID},
			{subjects.PolicyBlock, `{"users":["\ud800"]}`, subjects.CodeInvalidRequest},
			{subjects.PolicyAllow, `{"users":["eve"]}`, subjects.CodeInvalidRequest},
			{subjects.PolicyAllow, `{"users":["eve"],"granularity":"all"}`, subjects.CodeInvalidRequest},
			{subjects.PolicySet, `{"contact":"exakt"}`, subjects.CodeInvalidRequest},
			{subjects.PolicySet, `{"default":["friends"]}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"busy"}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"away","text":"` + strings.Repeat("x", 129) + `"}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"away","text":"a\nb"}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"away","priority":-1}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"away","until":"1999-01-01T00:00:00Z"}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyStatus, `{"status":{"availability":"away","until":"tomorrow"}}`, subjects.CodeInvalidRequest},
			{subjects.PolicyJoin, `{"groups":["` + strings.Repeat(`a","`, 300) + `b"]}`, subjects.CodeTooMany},
			{subjects.PolicyGet, `{"users":["eve"]}`, subjects.CodeInvalidRequest},
		} {
			m, err := c.nc.Request(s.Fabric.Policy(row.op, "bob"), []byte(row.body), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Header.Get(micro.ErrorCodeHeader); got != string(row.want) {
				t.Errorf("%s %.60s: %q (%s), want %s", row.op, row.body, got, m.Header.Get(micro.ErrorHeader), row.want)
			}
			time.Sleep(time.Second)
		}
		m, err := c.nc.Request(s.Fabric.Policies(subjects.PolicyGet)[:len("presence.policy.get.")]+"a=b", nil, 10*time.Second)
		if err != nil || m.Header.Get(micro.ErrorCodeHeader) != string(subjects.CodeInvalidRequest) {
			t.Errorf("a user that is no token: %v %v", m, err)
		}
		if got := c.must(subjects.PolicyGet, "bob", subjects.PolicyRequest{}); len(got.Blocks) != 0 {
			t.Errorf("refused, and stored: %+v", got)
		}
	})
}

// Damage must not show more: a policy that cannot be read shows the user to nobody,
// until it is forgotten.
func TestADamagedPolicyShowsNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		f := s.Start(fanout.Config{})
		v, c := newRaw(s, "vera"), newClerk(s)
		v.do(subjects.OpSubscribe, "bob")
		c.must(subjects.PolicyJoin, "vera", subjects.PolicyRequest{Groups: []string{"chess"}})
		for _, key := range []string{subjects.KeyPolicy("bob"), subjects.KeyGroups("vera")} {
			if _, err := s.JS.Publish(t.Context(), subjects.KVSubject(s.Fabric.ViewsBucket(0), key), []byte("\xff\xff")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if got := fmt.Sprint(told(v)); got != "[bob withdrawn]" {
			t.Errorf("told %s", got)
		}
		f.Crash() // and not only as long as somebody remembers
		s.Start(fanout.Config{})
		if got := views(v.do(subjects.OpGet, "bob")); len(got) != 0 {
			t.Errorf("sees %+v", got)
		}
		for _, user := range []string{"bob", "vera"} {
			m, err := c.nc.Request(s.Fabric.Policy(subjects.PolicyGet, user), nil, 10*time.Second)
			if err != nil || m.Header.Get(micro.ErrorCodeHeader) != string(subjects.CodeInternal) {
				t.Errorf("what is damaged of %s is told as %v, %v", user, m, err)
			}
			c.must(subjects.PolicyForget, user, subjects.PolicyRequest{})
			c.must(subjects.PolicyGet, user, subjects.PolicyRequest{})
		}
		if got := views(v.do(subjects.OpGet, "bob")); len(got) != 1 {
			t.Errorf("forgotten, and sees %+v", got)
		}
	})
}

func TestAnswersGoToInboxesOnly(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{})
		c := newClerk(s)
		for _, subject := range []string{
			subjects.KVSubject(s.Fabric.ViewsBucket(0), subjects.KeyPolicy("bob")),
			subjects.KVSubject(s.Fabric.InterestBucket(0), subjects.KeyInterest("vera", 0)), s.Fabric.Sight(), s.Fabric.ViewEvents("vera", 0),
		} {
			heard, err := c.nc.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			for _, to := range []string{s.Fabric.Request(subjects.OpGet, "eve"), s.Fabric.Policy(subjects.PolicyGet, "eve")} {
				c.nc.PublishMsg(&nats.Msg{Subject: to, Reply: subject, Data: body("bob")})
			}
			if m, err := heard.NextMsg(time.Second); err == nil {
				t.Errorf("the fanout wrote %q to %s", m.Data, subject)
			}
		}
	})
}

// Two processes change one policy at a time: no change gets lost.
func TestChangesOfOnePolicyDoNotGetLost(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Start(fanout.Config{})
		var writing sync.WaitGroup
		const each = 25
		for n := range 4 {
			c := newClerk(s)
			writing.Go(func() {
				for i := range each {
					c.must(subjects.PolicyContact, "bob", about(fmt.Sprintf("friend-%d-%d", n, i)))
				}
			})
		}
		writing.Wait()
		if got := newClerk(s).must(subjects.PolicyGet, "bob", subjects.PolicyRequest{}); len(got.Contacts) != 4*each {
			t.Errorf("%d contacts, want %d", len(got.Contacts), 4*each)
		}
	})
}

func TestTooManyRequestsOfOneViewer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{RequestRate: 2, RequestBurst: 5})
		v, other := newRaw(s, "vera"), newRaw(s, "other")
		for range 5 {
			v.do(subjects.OpGet, "bob")
		}
		_, refusal := v.ask(subjects.OpGet, body("bob"))
		if refusal == nil || refusal.Code != subjects.CodeRateLimited || !strings.Contains(refusal.Message, "500ms") {
			t.Errorf("refusal %v", refusal)
		}
		other.do(subjects.OpGet, "bob")                              // others go on
		newClerk(s).must(subjects.PolicyBlock, "vera", about("eve")) // and so does vera's policy
		time.Sleep(500 * time.Millisecond)                           // as told
		v.do(subjects.OpGet, "bob")
		if _, refusal := v.ask(subjects.OpGet, body("bob")); refusal == nil {
			t.Error("one more than the rate")
		}
	})
}

// The store forgets the last records, and a policy takes the place of a view that was
// read there.
func TestAPolicyInThePlaceOfALostView(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Set("carol", rollcall.Active)
		f := s.Start(fanout.Config{})
		v := newRaw(s, "vera")
		v.do(subjects.OpSubscribe, "bob", "carol")
		stream := subjects.KVStream(s.Fabric.ViewsBucket(0))
		snapshot := s.Server.Snapshot(stream)
		s.Set("carol", rollcall.Idle) // this will be lost
		time.Sleep(time.Second)
		s.Server.Stop()
		s.Server.Restore(snapshot)
		s.Server.Start()
		c := newClerk(s)
		c.must(subjects.PolicyBlock, "bob", about("vera"))
		c.must(subjects.PolicyContact, "bob", about("zoe"))
		time.Sleep(30 * time.Second)
		got := views(v.do(subjects.OpGet, "bob", "carol"))
		if _, seen := got["bob"]; seen || got["carol"].State != "active" {
			t.Errorf("sees %+v", got)
		}
		select {
		case <-f.Ended:
			t.Error("the fanout has ended")
		default:
		}
	})
}

func TestTheApplicationIsAskedOverNATS(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 2)
		for _, u := range []string{"bob", "carol"} {
			s.Set(u, rollcall.Active)
		}
		s.Start(fanout.Config{AskSights: true, SightTTL: time.Minute})
		v := newRaw(s, "vera")
		status := func(u string) string { return string(views(v.do(subjects.OpGet, u))[u].Status) }
		// Nobody answers: unknown, whether there is such a user or not.
		for _, u := range []string{"bob", "carol", "nobody"} {
			if got := status(u); got != string(rollcall.StatusUnknown) {
				t.Errorf("without an application %s is %q", u, got)
			}
		}
		v.do(subjects.OpSubscribe, "bob", "carol", "nobody")

		nc := lab.Connect(t, s.Server.NewLink())
		var mu sync.Mutex
		sights := map[string]rollcall.Granularity{"bob": rollcall.Exact, "carol": rollcall.Coarse}
		answer := func(q subjects.SightQuestion) string {
			mu.Lock()
			defer mu.Unlock()
			var all []string
			for _, target := range q.Targets {
				all = append(all, `"`+sights[target].String()+`"`)
			}
			return `{"sights":[` + strings.Join(all, ",") + `]}`
		}
		app, err := nc.Subscribe(s.Fabric.Sight(), func(m *nats.Msg) {
			if q, err := subjects.DecodeSightQuestion(m.Data); err == nil && q.Viewer == "vera" {
				m.Respond([]byte(answer(q)))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		nc.Flush()
		time.Sleep(10 * time.Second) // it is asked again soon
		if got := fmt.Sprint(told(v)); got != "[bob online carol online nobody withdrawn]" {
			t.Errorf("told %s", got)
		}
		mu.Lock()
		sights["bob"] = rollcall.Hidden
		mu.Unlock()
		time.Sleep(time.Second)
		if got := told(v); len(got) != 0 {
			t.Errorf("nobody knows of the change, and told %v", got)
		}
		nc.Publish(s.Fabric.SightChanged(), []byte(`{"viewer":"vera","target":"bob"}`))
		nc.Publish(s.Fabric.SightChanged(), []byte(`garbage`))
		time.Sleep(time.Second)
		if got := fmt.Sprint(told(v)); got != "[bob unknown]" {
			t.Errorf("told %s", got)
		}
		mu.Lock()
		sights["carol"] = rollcall.Absent
		mu.Unlock()
		time.Sleep(70 * time.Second) // it is asked again from time to time
		if got := fmt.Sprint(told(v)); got != "[carol withdrawn]" {
			t.Errorf("told %s", got)
		}
		mu.Lock()
		sights["bob"] = rollcall.Exact
		mu.Unlock()
		v.do(subjects.OpSubscribe, "bob") // whoever asks gets the answer of now
		app.Unsubscribe()
		time.Sleep(70 * time.Second)
		v.do(subjects.OpRefresh)
		if got := told(v); !slices.Contains(got, "bob unknown") {
			t.Errorf("the application fell silent, and told %v", got)
		}
	})
}

func TestASilentApplicationDelaysLittle(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{Sights: fanout.SightsFunc(func(ctx context.Context, _ string, _ []string) ([]rollcall.Granularity, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		begin := time.Now()
		for i := range 20 {
			if got := views(newRaw(s, fmt.Sprint("viewer-", i)).do(subjects.OpGet, "bob")); got["bob"].Status != rollcall.StatusUnknown {
				t.Errorf("sees %+v", got)
			}
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("20 requests took %s", took)
		}
	})
}

// One viewer's question that takes too long is no reason to ask nobody else's.
func TestASlowQuestionIsItsViewersOwn(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{Sights: fanout.SightsFunc(func(ctx context.Context, viewer string, targets []string) ([]rollcall.Granularity, error) {
			if viewer == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return slices.Repeat([]rollcall.Granularity{rollcall.Exact}, len(targets)), nil
		})})
		for i := range 5 {
			if got := views(newRaw(s, "slow").do(subjects.OpGet, "bob")); got["bob"].Status != rollcall.StatusUnknown {
				t.Errorf("slow sees %+v", got)
			}
			if got := views(newRaw(s, fmt.Sprint("viewer-", i)).do(subjects.OpGet, "bob")); got["bob"].State != "active" {
				t.Errorf("somebody else sees %+v", got)
			}
		}
	})
}

func TestAFabricsRelations(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		absent := rollcall.Absent
		s.Start(fanout.Config{Relations: subjects.Relations{Everyone: &absent}})
		v, c := newRaw(s, "vera"), newClerk(s)
		if got := views(v.do(subjects.OpGet, "bob")); len(got) != 0 {
			t.Errorf("a stranger sees %+v", got)
		}
		c.must(subjects.PolicyContact, "bob", about("vera"))
		if got := views(v.do(subjects.OpGet, "bob")); got["bob"].State != "active" {
			t.Errorf("a contact sees %+v", got)
		}
		if _, err := fanout.New(c.nc, fanout.Config{RequestRate: -1}); !errors.Is(err, fanout.ErrConfig) {
			t.Errorf("a negative rate: %v", err)
		}
	})
}
