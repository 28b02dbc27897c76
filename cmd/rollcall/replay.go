package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/trace"
)

type replayCmd struct {
	Trace     string        `arg:"" type:"existingfile" placeholder:"TRACE.csv" help:"CSV with the columns t,user,device,edge,event."`
	Speed     float64       `default:"1" help:"How much faster than it was (default 1)."`
	Published string        `placeholder:"OUT.csv" help:"Write what a viewer of everybody receives: t,user,status,version."`
	Settle    time.Duration `placeholder:"DURATION" help:"How long to stay after the last event (default: the longest bound of the fabric)."`
	NoBar     bool          `help:"No progress bar."`
	remote
}

func (c *replayCmd) Help() string {
	return `Plays a connection history into a running fabric: one edge for each edge id, and devices that send heartbeats as the
fabric's timing says. Speed divides the time between events; heartbeats, leases and the debounce keep theirs, because the
fabric's clock is real. So at a high speed somebody who was away for a minute comes back within the debounce, and nobody
sees it; for a published history that is right to the second use

  go test ./e2e -run '^TestTrace$' -args -replay=TRACE.csv -published=OUT.csv

which replays in virtual time. Times in OUT.csv are those of the trace, i.e. multiplied by the speed.`
}

func (c *replayCmd) Run(ctx context.Context, std console) error {
	if !(c.Speed > 0) {
		return fmt.Errorf("%w: --speed must be above zero, not %v", errUsage, c.Speed)
	}
	events, err := readTrace(c.Trace)
	if err != nil {
		return err
	}
	nc, err := c.connect("replay")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	lookup, cancel := context.WithTimeout(ctx, answerTimeout)
	found, err := fabric.Lookup(lookup, js, c.Prefix)
	cancel()
	if err != nil {
		return err
	}
	if c.Settle == 0 {
		c.Settle = found.Params.Bounds().EdgeCrash.Latest + time.Second
	}
	r := &replaying{replayCmd: c, events: events, found: found, bar: c.bar(len(events), std), err: std.err}
	if err := r.run(ctx); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "played %d events; a viewer received %d changes\n", len(events), r.rows)
	return nil
}

func readTrace(path string) ([]trace.Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	events, err := trace.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errUsage, path, err)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: %s holds no events", errUsage, path)
	}
	return events, nil
}

func (c *replayCmd) bar(events int, std console) *progressbar.ProgressBar {
	if c.NoBar || !isTerminal(std.err) {
		return progressbar.DefaultSilent(int64(events))
	}
	return progressbar.NewOptions(events, progressbar.OptionSetWriter(std.err), progressbar.OptionSetDescription("replaying"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetWidth(30))
}

// isTerminal says whether somebody watches; a bar in a file is only noise.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// replaying is one run of replay.
type replaying struct {
	*replayCmd
	events []trace.Event
	found  fabric.Fabric
	bar    *progressbar.ProgressBar
	begin  time.Time
	rows   int
	err    io.Writer
}

func (r *replaying) run(ctx context.Context) error {
	out, closeOut, err := r.output()
	if err != nil {
		return err
	}
	watcher := seeing{remote: r.remote}
	err = watcher.see(ctx, "replay", func(ctx context.Context, client *viewer.Client) error {
		first, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if err := client.Watch(first, trace.Users(r.events)...); err != nil {
			return noAnswer(err, r.Prefix)
		}
		r.begin = time.Now()
		played, stop := context.WithCancel(ctx)
		defer stop()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return r.write(played, client, out) })
		group.Go(func() error {
			defer stop()
			return r.play(ctx)
		})
		return group.Wait()
	})
	return errors.Join(err, closeOut())
}

func (r *replaying) output() (*csv.Writer, func() error, error) {
	if r.Published == "" {
		return csv.NewWriter(io.Discard), func() error { return nil }, nil
	}
	file, err := os.Create(r.Published)
	if err != nil {
		return nil, nil, err
	}
	out := csv.NewWriter(file)
	return out, func() error {
		out.Flush()
		return errors.Join(out.Error(), file.Close())
	}, nil
}

// play plays the events, stays until everything must be published, and lets the
// edges leave politely.
func (r *replaying) play(ctx context.Context) error {
	var edges edges
	ctx, cancel := context.WithCancel(ctx)
	defer edges.wait()
	defer cancel()
	player := trace.Player{
		Params: r.found.Params, Speed: r.Speed, Seed: uint64(time.Now().UnixNano()),
		Start:  func(_ context.Context, id string) (trace.Gateway, error) { return edges.start(ctx, r.remote, id) },
		Played: func(int) { r.bar.Add(1) },
	}
	defer player.Wait()
	defer cancel()
	if err := player.Play(ctx, r.events); err != nil {
		return err
	}
	r.bar.Finish()
	fmt.Fprintf(r.err, "\nall events played; staying %s for the last changes\n", short(r.Settle.Round(time.Second)))
	select {
	case <-ctx.Done():
	case <-time.After(r.Settle):
	}
	return edges.drain(ctx)
}

// write writes what the viewer receives until everything is played.
func (r *replaying) write(ctx context.Context, client *viewer.Client, out *csv.Writer) error {
	if err := out.Write([]string{"t", "user", "status", "version"}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case c, open := <-client.Changes():
			if !open {
				return nil
			}
			r.rows++
			at := c.At.Sub(r.begin).Seconds() * r.Speed
			row := []string{
				strconv.FormatFloat(max(at, 0), 'f', 3, 64), c.Target, string(c.View.Status), strconv.FormatUint(c.View.Version, 10),
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
}

// edges are the edge processes of a replay, each with a connection of its own.
type edges struct {
	running sync.WaitGroup
	mu      sync.Mutex
	nodes   map[string]*edge.Node
}

func (e *edges) start(ctx context.Context, r remote, id string) (trace.Gateway, error) {
	nc, err := r.connect("edge " + id)
	if err != nil {
		return trace.Gateway{}, err
	}
	node, err := edge.New(nc, edge.Config{ID: id, Prefix: r.Prefix, Logger: slog.Default()})
	if err != nil {
		nc.Close()
		return trace.Gateway{}, err
	}
	ctx, crash := context.WithCancel(ctx)
	ended := make(chan error, 1)
	e.running.Go(func() {
		defer nc.Close()
		ended <- node.Run(ctx)
	})
	select {
	case <-node.Ready():
	case err := <-ended:
		crash()
		return trace.Gateway{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.nodes == nil {
		e.nodes = make(map[string]*edge.Node)
	}
	e.nodes[id] = node
	return trace.Gateway{Node: node, Crash: func() { e.forget(id); crash() }}, nil
}

func (e *edges) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, id)
}

// drain lets every edge that still runs leave.
func (e *edges) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	var group errgroup.Group
	for _, node := range e.nodes {
		group.Go(func() error { return node.Drain(ctx) })
	}
	return group.Wait()
}

func (e *edges) wait() { e.running.Wait() }
