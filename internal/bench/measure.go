package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// rounds of every rate; the figure is their median.
const rounds = 3

// A measure takes one group of figures.
type measure struct {
	name string
	take func(*runner, context.Context) error
	// onlyByName: it takes minutes, and memory.
	onlyByName bool
}

// measures lists them in the order in which they are taken.
func measures() []measure {
	return []measure{
		{name: "opens", take: (*runner).opens},
		{name: "changes", take: (*runner).changes},
		{name: "storm", take: (*runner).storm},
		{name: "latency", take: (*runner).latency},
		{name: "renewals", take: (*runner).renewals},
		{name: "heartbeats", take: (*runner).heartbeats},
		{name: "growth", take: (*runner).growth, onlyByName: true},
	}
}

// Names lists the measures.
func Names() []string {
	var names []string
	for _, m := range measures() {
		names = append(names, m.name)
	}
	return names
}

// runner is one run.
type runner struct {
	Config
	*scene
	figures Figures
}

// Run measures and reports. It ends early, with nothing left behind, when ctx ends.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	s, err := openScene(cfg.Logger)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &runner{Config: cfg, scene: s}
	for _, m := range measures() {
		if named := slices.Contains(cfg.Only, m.name); !named && (m.onlyByName || len(cfg.Only) > 0) {
			continue
		}
		if err := m.take(r, ctx); err != nil {
			return Report{}, fmt.Errorf("bench: %s: %w", m.name, err)
		}
	}
	return newReport(cfg, s.version, r.figures), nil
}

func (r *runner) say(format string, args ...any) { r.Progress(fmt.Sprintf(format, args...)) }

// patience is how long anything may take to arrive before it counts as lost.
const patience = 60 * time.Second

// await waits until something holds.
func await(ctx context.Context, what string, holds func() bool) error {
	return awaitWithin(ctx, patience, what, holds)
}

func awaitWithin(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	const every = 2 * time.Millisecond
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s", what, limit)
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
