package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge"
)

const (
	openEdges = 2
	// listed is how many users a viewer of the opens watches. More would measure how
	// the fanout paces a single viewer.
	listed = 500
)

// inUse is the state of a device in somebody's hand.
func inUse() edge.State { return edge.State{Foreground: true, Active: true} }

// opens measures how fast new users become visible, from the first Connect to the
// viewer's last event.
func (r *runner) opens(ctx context.Context) error {
	st, err := r.raise(ctx, "bench_opens", cast{params: patientParams(), edges: openEdges})
	if err != nil {
		return err
	}
	defer st.strike()
	raw, err := r.newRawStream(st.ctx, "bench-raw-opens")
	if err != nil {
		return err
	}
	defer raw.close()
	nc, err := st.open("viewers")
	if err != nil {
		return err
	}
	r.say("opens: warming up")
	if _, err := st.openRound(nc, "warm", max(r.Opens/10, 1)); err != nil {
		return err
	}
	if _, err := raw.write(st.ctx, r.Opens); err != nil {
		return err
	}
	return r.openRounds(st, nc, raw)
}

// openRounds takes each round beside as many raw writes as its opens make.
func (r *runner) openRounds(st *stage, nc *nats.Conn, raw *rawStream) error {
	var figures Opens
	var written sequences
	for i := range rounds {
		r.say("opens: round %d of %d, %d users", i+1, rounds, r.Opens)
		opened, err := st.openRound(nc, fmt.Sprintf("r%d", i), r.Opens)
		if err != nil {
			return err
		}
		figures.Visible.add(int64(r.Opens), opened.took)
		written.kv, written.log = written.kv+opened.written.kv, written.log+opened.written.log
		took, err := raw.write(st.ctx, 2*r.Opens)
		if err != nil {
			return err
		}
		figures.JetStream.add(int64(2*r.Opens), took)
	}
	figures.KVWrites = round(float64(written.kv)/float64(rounds*r.Opens), 4)
	figures.LogWrites = round(float64(written.log)/float64(rounds*r.Opens), 4)
	r.figures.Opens = &figures
	return r.sound()
}

type openRound struct {
	took    time.Duration
	written sequences
}

// openRound connects n users nobody has seen before.
func (st *stage) openRound(nc *nats.Conn, name string, n int) (openRound, error) {
	users := make([]string, n)
	lists := make([][]string, (n+listed-1)/listed)
	for i := range users {
		users[i] = fmt.Sprintf("user-%s-%06d", name, i)
		lists[i%len(lists)] = append(lists[i%len(lists)], users[i])
	}
	watching, err := st.gather(nc, "viewer-"+name, lists)
	if err != nil {
		return openRound{}, err
	}
	defer watching.leave()
	before, err := st.sequences(st.ctx) // the round before has settled, and an answered Watch is stored
	if err != nil {
		return openRound{}, err
	}
	begin := time.Now()
	if err := st.connectAll(users); err != nil {
		return openRound{}, err
	}
	last, err := watching.wait()
	if err != nil {
		return openRound{}, err
	}
	after, err := st.settled(st.ctx)
	return openRound{took: last.Sub(begin), written: after.since(before)}, err
}

// connectAll connects users as fast as the edges take them.
func (st *stage) connectAll(users []string) error {
	var group errgroup.Group
	for i, node := range st.edges {
		group.Go(func() error {
			for j := i; j < len(users); j += len(st.edges) {
				if _, err := node.Connect(users[j], "phone", inUse()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
