package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
)

// changes measures how fast a crowd of viewers is told of users who change again
// within every window of the fanout.
func (r *runner) changes(ctx context.Context) error {
	st, err := r.raise(ctx, "bench_changes", cast{params: patientParams(), edges: 1})
	if err != nil {
		return err
	}
	defer st.strike()
	r.say("changes: subscribing %d viewers to %d targets each", r.Viewers, r.Targets)
	pool := make([]string, poolFactor*r.Targets)
	for i := range pool {
		pool[i] = fmt.Sprintf("target-%04d", i)
	}
	c, err := st.crowdOf(r.Viewers, r.Targets, pool)
	if err != nil {
		return err
	}
	actors, err := st.actorsOf(pool)
	if err != nil {
		return err
	}
	r.say("changes: warming up")
	warm, err := actors.round(c, "warm", r.Duration/20)
	if err != nil {
		return err
	}
	raw, err := st.newRawCore(c.names, int(warm.bytes/max(warm.messages, 1)))
	if err != nil {
		return err
	}
	return r.changeRounds(actors, c, raw)
}

// poolFactor is how many users there are for each target of a viewer, so that
// viewers watch different ones.
const poolFactor = 4

func (r *runner) changeRounds(actors *actors, c *crowd, raw *rawCore) error {
	figures := Changes{Allowed: float64(r.Viewers*r.Targets) / fanout.DefaultWindow.Seconds()}
	var all count
	if _, err := raw.run(r.Duration / 50); err != nil {
		return err
	}
	for i := range rounds {
		r.say("changes: round %d of %d", i+1, rounds)
		got, err := actors.round(c, fmt.Sprintf("end-%d", i), r.Duration/5)
		if err != nil {
			return err
		}
		figures.Offered.add(got.made*int64(r.Viewers)/poolFactor, got.took)
		figures.Delivered.add(got.changes, got.took)
		figures.Messages.add(got.messages, got.took)
		all.messages, all.bytes = all.messages+got.messages, all.bytes+got.bytes
		core, err := raw.run(r.Duration / 15)
		if err != nil {
			return err
		}
		figures.Core.add(core.messages, core.took)
	}
	figures.Bytes = round(float64(all.bytes)/float64(max(all.messages, 1)), 0)
	r.figures.Changes = &figures
	return r.sound()
}

// actors are connected users who change their activity over and over.
type actors struct {
	st    *stage
	conns []*edge.Conn
	made  atomic.Int64
	turn  int
}

func (st *stage) actorsOf(users []string) (*actors, error) {
	a := &actors{st: st}
	for _, user := range users {
		conn, err := st.edges[0].Connect(user, "phone", inUse())
		if err != nil {
			return nil, err
		}
		a.conns = append(a.conns, conn)
	}
	return a, nil
}

// show gives everybody the same new activity. It must be new: a state that is back
// where it was within a window is not told.
func (a *actors) show(activity string) error {
	for _, conn := range a.conns {
		state := inUse()
		state.Activity = activity
		if err := conn.SetState(state); err != nil {
			return err
		}
		a.made.Add(1)
	}
	return nil
}

// act changes everybody a bit more often than viewers can be told.
func (a *actors) act(stop <-chan struct{}) error {
	every := time.NewTicker(fanout.DefaultWindow * 4 / 5)
	defer every.Stop()
	for {
		a.turn++
		if err := a.show(fmt.Sprintf("turn-%d", a.turn)); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-a.st.ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// A changeRound is what was made and what came within a time.
type changeRound struct {
	count
	made int64
	took time.Duration
}

// round changes everybody for a while, at least the window in which each viewer is
// told once, counts in the middle of it, and then verifies that every viewer has the
// last state of all its targets.
func (a *actors) round(c *crowd, last string, d time.Duration) (changeRound, error) {
	var got changeRound
	var acting sync.WaitGroup
	var failed error
	stop := make(chan struct{})
	acting.Go(func() { failed = a.act(stop) })
	err := pause(a.st.ctx, fanout.DefaultWindow)
	if err == nil {
		made := a.made.Load()
		got.count, got.took, err = c.during(max(d, fanout.DefaultWindow))
		got.made = a.made.Load() - made
	}
	close(stop)
	acting.Wait()
	if err == nil {
		err = failed
	}
	if err == nil && got.messages == 0 {
		err = fmt.Errorf("nothing was delivered within %s", got.took)
	}
	if err != nil {
		return got, err
	}
	c.expect(last)
	if err := a.show(last); err != nil {
		return got, err
	}
	return got, c.verify()
}
