package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/subjects/identity"
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

which replays in virtual time. Times in OUT.csv are those of the trace, i.e. multiplied by the speed.

A trace is CSV in order of t, which counts seconds from its start:

  open, close      the device connects to the edge, and leaves; an open replaces a connection that was never ended
  silent           from here on the device says nothing; nobody is told
  edge_crash       the edge dies with everything it holds and does not come back; user and device are empty
  foreground, background, active, idle
                   the app says so

Ctrl-C lets the edges leave, so that nobody stays online behind, and ends with exit code 130.`
}

func (c *replayCmd) Run(ctx context.Context, std console) error {
	if !(c.Speed > 0) {
		return fmt.Errorf("%w: --speed must be above zero, not %v", errUsage, c.Speed)
	}
	events, err := readTrace(c.Trace)
	if err != nil {
		return err
	}
	nc, err := c.connectAs(std, "replay", party{role: identity.Edge, ids: []string{"replay"}, does: "play the edges of a trace and look at them"})
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
	if c.NoBar || !isTerminal(std.err) {
		played := time.Duration(float64(events[len(events)-1].At) / c.Speed)
		fmt.Fprintf(std.err, "replaying %d events, which takes %s, and then %s until the last changes are due\n",
			len(events), played.Round(time.Second), short(c.Settle.Round(time.Second)))
	}
	r := &replaying{replayCmd: c, events: events, found: found, bar: c.bar(len(events), std), std: std}
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
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetWidth(30),
		progressbar.OptionOnCompletion(func() { fmt.Fprintln(std.err) }))
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
	played atomic.Int64
	rows   int
	std    console
}

func (r *replaying) run(ctx context.Context) error {
	out, closeOut, err := r.output()
	if err != nil {
		return err
	}
	watcher := seeing{remote: r.remote}
	err = watcher.see(ctx, r.std, "replay", func(ctx context.Context, client *viewer.Client) error {
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
// edges leave politely, also when it is interrupted: nobody shall stay online behind.
func (r *replaying) play(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	edges := newEdges(context.WithoutCancel(ctx), r.std, r.remote, fail)
	player := trace.Player{
		Params: r.found.Params, Speed: r.Speed, Seed: uint64(time.Now().UnixNano()),
		Start: edges.start, Played: func(int) { r.played.Add(1) },
	}
	drawing := r.draw(ctx)
	err := player.Play(ctx, r.events)
	if err == nil {
		fmt.Fprintf(r.std.err, "all events played; staying %s for the last changes\n", short(r.Settle.Round(time.Second)))
		retry.Pause(ctx, r.Settle)
	}
	cause := context.Cause(ctx)
	fail(nil)
	drawing.Wait()
	player.Wait()
	left := edges.drain()
	switch {
	case errors.Is(cause, context.Canceled):
		return errors.Join(fmt.Errorf("%w after %d of %d events; its edges have left", errInterrupted, r.played.Load(), len(r.events)), left)
	case cause != nil:
		return cause
	}
	return errors.Join(err, left)
}

// draw keeps the bar up to date until everything is played.
func (r *replaying) draw(ctx context.Context) *sync.WaitGroup {
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for {
			played := r.played.Load()
			r.bar.Set64(played)
			if played == int64(len(r.events)) || !retry.Pause(ctx, 100*time.Millisecond) {
				return
			}
		}
	})
	return &drawing
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
