package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Sights answers for an application that keeps its own social graph. Blocks and what
// users say of themselves come from their policies all the same.
type Sights interface {
	// Sights is how much viewer may know of each of the targets, in their order.
	// It must be safe for concurrent use. If it fails, or ctx ends before it
	// returns, the viewer sees all of them as unknown, whether they exist or not,
	// until it is asked again.
	Sights(ctx context.Context, viewer string, targets []string) ([]rollcall.Granularity, error)
}

// SightsFunc is a function as [Sights].
type SightsFunc func(ctx context.Context, viewer string, targets []string) ([]rollcall.Granularity, error)

// Sights implements [Sights].
func (f SightsFunc) Sights(ctx context.Context, viewer string, targets []string) ([]rollcall.Granularity, error) {
	return f(ctx, viewer, targets)
}

// SightsOverNATS asks whoever answers requests on [subjects.Names.Sight].
func SightsOverNATS(nc *nats.Conn, names subjects.Names) Sights {
	return SightsFunc(func(ctx context.Context, viewer string, targets []string) ([]rollcall.Granularity, error) {
		body, err := json.Marshal(subjects.SightQuestion{Viewer: viewer, Targets: targets})
		if err != nil {
			return nil, err
		}
		m, err := nc.RequestWithContext(ctx, names.Sight(), body)
		if err != nil {
			return nil, err
		}
		answer, err := subjects.DecodeSightAnswer(m.Data)
		return answer.Sights, err
	})
}

// An asker puts questions to the application and counts its silence.
type asker struct {
	sights  Sights
	timeout time.Duration
	log     func(msg string, err error)
	failed  func()
	// silences counts the questions that the application let run out since it answered
	// last, and mute is until when, in nanoseconds, it is not asked because of them: its
	// silence must not hold up every request.
	silences, mute atomic.Int64
}

// newAsker is nil if no application decides.
func (f *Fanout) newAsker() *asker {
	sights := f.cfg.Sights
	if f.cfg.AskSights {
		sights = SightsOverNATS(f.nc, f.fabric.Names)
	}
	if sights == nil {
		return nil
	}
	return &asker{
		sights: sights, timeout: f.cfg.SightTimeout, failed: f.metrics.unanswered.Inc,
		log: func(msg string, err error) { f.cfg.Logger.Warn(msg, "err", err) },
	}
}

const (
	// muteAfter is how many silences it takes: one alone may be due to the question,
	// such as a very long list, which is no reason to ask nobody else's.
	muteAfter = 3
	// muteFor is how long that lasts.
	muteFor = time.Second
)

var errMute = errors.New("fanout: the application was silent a moment ago")

// ask returns a verdict for every target, unspecified if there is no answer.
func (a *asker) ask(ctx context.Context, viewer string, targets []string) verdicts {
	said := make(verdicts, len(targets))
	for _, t := range targets {
		said[t] = wire.Granularity_GRANULARITY_UNSPECIFIED
	}
	sights, err := a.question(ctx, viewer, targets)
	if err != nil {
		a.failed()
		if !errors.Is(err, errMute) {
			a.log("the application does not say who may know what", err)
		}
		return said
	}
	for i, t := range targets {
		said[t] = storedGranularity(sights[i])
	}
	return said
}

func (a *asker) question(ctx context.Context, viewer string, targets []string) (sights []rollcall.Granularity, err error) {
	if time.Now().UnixNano() < a.mute.Load() {
		return nil, errMute
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	type answer struct {
		sights []rollcall.Granularity
		err    error
	}
	// Whoever ignores ctx holds up a goroutine, not the viewer.
	answers := make(chan answer, 1)
	go func() {
		var got answer
		defer func() {
			if p := recover(); p != nil {
				got.err = fmt.Errorf("fanout: panic in Sights: %v", p)
			}
			answers <- got
		}()
		got.sights, got.err = a.sights.Sights(ctx, viewer, targets)
	}()
	select {
	case <-ctx.Done():
		a.silent()
		return nil, ctx.Err()
	case got := <-answers:
		if errors.Is(got.err, context.DeadlineExceeded) {
			a.silent()
		} else {
			a.silences.Store(0)
		}
		return got.sights, errors.Join(got.err, checkSights(got.sights, len(targets), got.err))
	}
}

// silent notes that a question ran out.
func (a *asker) silent() {
	if a.silences.Add(1) >= muteAfter {
		a.mute.Store(time.Now().Add(muteFor).UnixNano())
	}
}

func checkSights(sights []rollcall.Granularity, want int, err error) error {
	if err != nil {
		return nil // said already
	}
	if len(sights) != want {
		return fmt.Errorf("fanout: %d sights for %d targets", len(sights), want)
	}
	for _, g := range sights {
		if g > rollcall.Exact {
			return fmt.Errorf("fanout: sight %d is no granularity", g)
		}
	}
	return nil
}

// ask asks the application, if one decides.
func (f *Fanout) ask(ctx context.Context, viewer string, targets []string) verdicts {
	if f.asker == nil {
		return nil
	}
	return f.asker.ask(ctx, viewer, targets)
}

// SightChanged has an application that decides who may know what asked again: about
// a target, for a viewer, or, if both are named, for that viewer about that target.
// All fanouts of the fabric do so. Over NATS the same is said on [subjects.Names.SightChanged].
func (f *Fanout) SightChanged(viewer, target string) {
	names, err := subjects.New(f.cfg.Prefix, 1)
	if err == nil {
		data, _ := json.Marshal(subjects.SightChange{Viewer: viewer, Target: target}) // two strings
		err = f.nc.Publish(names.SightChanged(), data)
	}
	if err != nil {
		f.cfg.Logger.Warn("change of sight not passed on", "err", err)
	}
}

// doubt has verdicts asked again in the shards of this fanout.
func (f *Fanout) doubt(viewer, target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sh := range f.shards {
		sh.step(func(b *board, now time.Time) { b.doubt(viewer, target, now) })
	}
}

// hearChanges listens for changes of mind over NATS until stop is called.
func (f *Fanout) hearChanges() (stop func(), err error) {
	if f.asker == nil {
		return func() {}, nil
	}
	subscription, err := f.nc.Subscribe(f.fabric.SightChanged(), func(m *nats.Msg) {
		change, err := subjects.DecodeSightChange(m.Data)
		if err != nil {
			f.metrics.malformed.Inc()
			f.cfg.Logger.Warn("change of sight ignored", "err", err)
			return
		}
		f.doubt(change.Viewer, change.Target)
	})
	if err != nil {
		return nil, fmt.Errorf("fanout: changes of sight: %w", err)
	}
	return func() { subscription.Unsubscribe() }, nil // fails only when the connection is closed already
}

// askers is how many questions of a shard are under way at most.
const askers = 32

// inquire puts the board's questions until ctx ends.
func (sh *shard) inquire(ctx context.Context) error {
	if sh.fanout.asker == nil {
		return nil
	}
	var asking errgroup.Group
	asking.SetLimit(askers)
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sh.asked:
			sh.mu.Lock()
			questions := sh.board.questions
			sh.board.questions = nil
			sh.mu.Unlock()
			for _, q := range questions {
				asking.Go(func() error {
					said := sh.fanout.asker.ask(ctx, q.viewer, q.targets)
					if ctx.Err() == nil {
						sh.step(func(b *board, now time.Time) { b.answered(q.viewer, said, now) })
					}
					return nil
				})
			}
		}
	}
}
