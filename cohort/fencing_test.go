package cohort_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// What is recorded of a partition: it was taken over, or something was committed in it.
type input struct {
	partition int
	claim     bool
	conn      string
	gen       uint64
	offset    uint64 // to be committed
}

type output struct {
	outcome outcome
	offset  uint64 // found by a claim
}

type outcome string

const (
	stored  outcome = "stored"
	refused outcome = "refused" // somebody else's
	unknown outcome = "unknown" // stored or not, now or later
)

// A fence is what a partition is, to whom only the order of operations is known: the last one
// who took it over may commit, and nobody else.
type fence struct {
	conn   string
	gen    uint64
	offset uint64
}

// step is every state that an operation can lead to, by what its caller was told.
func (f fence) step(in input, out output) (next []any) {
	mine := in.gen == f.gen && in.conn == f.conn
	var may bool
	after := fence{in.conn, in.gen, in.offset}
	if in.claim {
		may = in.gen > f.gen || mine
		after.offset = f.offset
	} else {
		may = mine && in.offset >= f.offset
	}
	switch out.outcome {
	case stored:
		if may && (!in.claim || out.offset == f.offset) {
			next = append(next, after)
		}
	case refused:
		if in.gen < f.gen || in.gen == f.gen && in.conn != f.conn {
			next = append(next, f)
		}
	case unknown:
		if next = append(next, f); may {
			next = append(next, after)
		}
	}
	return next
}

// fencing is the model of all partitions, each by itself.
func fencing() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := make(map[int][]porcupine.Operation)
			for _, o := range history {
				n := o.Input.(input).partition
				by[n] = append(by[n], o)
			}
			return slices.Collect(maps.Values(by))
		},
		Init:              func() []any { return []any{fence{}} },
		Step:              func(state, in, out any) []any { return state.(fence).step(in.(input), out.(output)) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
	return model.ToModel()
}

// A recorder keeps the history of a run. Its clock counts beginnings and ends, so that it is exact
// where virtual time stands still.
type recorder struct {
	mu      sync.Mutex
	clock   int64
	history []porcupine.Operation
}

func (r *recorder) tick() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return uint64(r.clock)
}

func (r *recorder) begin(client int) func(cohort.Op) func(uint64, error) {
	return func(op cohort.Op) func(uint64, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.clock++
		began := r.clock
		in := input{op.Partition, op.Claim, op.Conn, op.Generation, op.Offset}
		return func(offset uint64, err error) { r.end(client, began, in, offset, err) }
	}
}

// forever is when an operation of unknown outcome has ended at the latest.
const forever = int64(1) << 62

func (r *recorder) end(client int, began int64, in input, offset uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	o := porcupine.Operation{ClientId: client, Input: in, Call: began, Return: r.clock}
	switch {
	case errors.Is(err, cohort.ErrBackwards):
		return // nothing was asked of the store
	case err == nil:
		o.Output = output{stored, offset}
	case errors.Is(err, errNotOwner):
		o.Output = output{refused, 0}
	default:
		// The caller may go on, but this operation stays open.
		o.Output, o.Return = output{unknown, 0}, forever
	}
	r.history = append(r.history, o)
}

// TestFencing has members join, work, fall silent, come back, be killed and leave at random, the
// coordinator among them, and checks that what they were told can be explained by one order in
// which only the last who took a partition over could commit there.
func TestFencing(t *testing.T) {
	runs, stale, handovers := 220, 0, 0
	if testing.Short() {
		runs = 25
	}
	for seed := range runs {
		lab.Bubble(t, func(t *testing.T) {
			r := chaos(t, uint64(seed))
			for _, o := range r.history {
				if o.Output.(output).outcome == refused {
					stale++
				}
				if o.Input.(input).claim && o.Output.(output).outcome == stored {
					handovers++
				}
			}
			result, info := porcupine.CheckOperationsVerbose(fencing(), r.history, 0)
			if result != porcupine.Ok {
				path := filepath.Join(os.TempDir(), fmt.Sprintf("fencing-%d.html", seed))
				t.Errorf("seed %d: %s; see %s (%v)", seed, result, path, porcupine.VisualizePath(fencing(), info, path))
			}
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d runs: %d partitions taken over, %d operations refused", runs, handovers, stale)
	if handovers < 10*runs || stale < runs {
		t.Error("too little happened for the fence to be tested")
	}
}

// TestFencingModel shows that the model of [TestFencing] can fail: w0 has taken a partition over and
// committed 5 there, and what follows can be explained, or not.
func TestFencingModel(t *testing.T) {
	at := func(from, to int64, in input, what outcome, found uint64) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: output{what, found}, Call: from, Return: to}
	}
	claim := func(conn string, gen uint64) input { return input{claim: true, conn: conn, gen: gen} }
	commit := func(conn string, gen, offset uint64) input { return input{conn: conn, gen: gen, offset: offset} }
	first := []porcupine.Operation{at(1, 2, claim("w0", 1), stored, 0), at(3, 4, commit("w0", 1, 5), stored, 0)}
	taken := at(10, 20, claim("w1", 2), stored, 5)
	after := func(in input, what outcome) porcupine.Operation { return at(21, 22, in, what, 0) }
	type history = []porcupine.Operation
	for want, histories := range map[porcupine.CheckResult]map[string]history{
		porcupine.Ok: {
			"the new owner goes on":           {taken, after(commit("w1", 2, 6), stored)},
			"the old one is refused":          {taken, after(commit("w0", 1, 6), refused)},
			"the old one was just before it":  {at(10, 20, claim("w1", 2), stored, 6), at(15, 25, commit("w0", 1, 6), stored, 0)},
			"nobody knows, and it was stored": {at(5, forever, commit("w0", 1, 6), unknown, 0), at(10, 20, claim("w1", 2), stored, 6)},
			"nobody knows, and it was not":    {at(5, forever, commit("w0", 1, 6), unknown, 0), taken},
		},
		porcupine.Illegal: {
			"a stale commit is stored":            {taken, after(commit("w0", 1, 6), stored)},
			"at the same time, and not found":     {taken, at(15, 25, commit("w0", 1, 6), stored, 0)},
			"somebody else has the generation":    {taken, after(commit("w0", 2, 6), stored)},
			"nobody has the generation yet":       {after(commit("w1", 2, 6), stored)},
			"an old generation takes over":        {taken, at(21, 22, claim("w0", 1), stored, 5)},
			"the offset that is found goes back":  {at(10, 20, claim("w1", 2), stored, 4)},
			"the offset that is stored goes back": {after(commit("w0", 1, 4), stored)},
			"the owner is refused":                {taken, after(commit("w1", 2, 6), refused)},
			"only another partition was taken":    {taken, after(input{partition: 1, conn: "w1", gen: 2, offset: 6}, stored)},
		},
	} {
		for name, then := range histories {
			if got := porcupine.CheckOperationsTimeout(fencing(), slices.Concat(first, then), 0); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// chaos is one run of about a minute.
func chaos(t *testing.T, seed uint64) *recorder {
	random := rand.New(rand.NewPCG(seed, 49))
	s := newScene(t, 6)
	s.timing.Hold = 3 * time.Second
	s.timing.Release = 2 * time.Second
	r := new(recorder)
	workers := make([]*worker, 4)
	var all []*worker // the replaced ones too
	var toil sync.WaitGroup
	start := func(i int) {
		cfg := cohort.WithHooks(s.config(fmt.Sprint("w", i)), nil, r.begin(len(all)))
		workers[i] = s.joinAs(cfg)
		workers[i].greedy.Store(random.IntN(3) == 0)
		all = append(all, workers[i])
		w := workers[i]
		toil.Go(func() { w.toil(r) })
	}
	pause := func(least, spread time.Duration) {
		time.Sleep((least + time.Duration(random.Int64N(int64(spread)))).Truncate(time.Millisecond))
	}
	for i := range workers {
		start(i)
	}
	for range 16 {
		for _, w := range workers { // nats.go reconnects under a mutex, at which time would stand still
			for !w.nc.IsConnected() {
				time.Sleep(time.Millisecond)
			}
		}
		i := random.IntN(len(workers))
		w := workers[i]
		switch random.IntN(7) {
		case 0: // a pause or a partition beyond the timeout
			w.link.Freeze()
			pause(9*time.Second, 3*time.Second)
			w.link.Thaw()
		case 1: // a short one
			w.link.Freeze()
			pause(0, 5*time.Second)
			w.link.Thaw()
		case 2: // everybody's path is slow
			for _, w := range workers {
				w.link.Delay(time.Duration(random.IntN(1500)) * time.Millisecond)
			}
			pause(0, 5*time.Second)
			for _, w := range workers {
				w.link.Delay(0)
			}
		case 3:
			w.kill()
			pause(0, 12*time.Second)
			start(i)
		case 4:
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			w.member.Leave(ctx)
			cancel()
			pause(0, 5*time.Second)
			start(i)
		case 5: // the connection breaks
			w.link.Cut()
			pause(0, 3*time.Second)
			w.link.Heal()
		case 6: // another process takes the same id
			start(i)
		}
		pause(0, 2*time.Second)
	}
	for _, w := range all {
		w.kill()
	}
	toil.Wait()
	return r
}

// toil commits in every partition that the worker believes to have. What it has not heard of yet is
// what the fence is for.
func (w *worker) toil(r *recorder) {
	for {
		select {
		case <-w.member.Done():
			return
		case <-time.After(300 * time.Millisecond):
		}
		for _, n := range w.has() {
			w.commit(n, r.tick())
		}
	}
}
