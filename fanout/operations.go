package fanout

import (
	"context"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func (f *Fanout) subscribe(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	d, err := f.divide(f.sharesOf(targets))
	if err != nil {
		return nil, err
	}
	said := f.ask(ctx, viewer, targets)
	found, err := f.do(ctx, job{wire.PeerRequest_KIND_SURVEY, viewer, said}, f.withOthers(d))
	if err != nil {
		return nil, err
	}
	if err := f.checkLimits(found); err != nil {
		return nil, err
	}
	done, err := f.do(ctx, job{wire.PeerRequest_KIND_SUBSCRIBE, viewer, said}, d)
	if err != nil {
		return nil, err
	}
	data, err := done.reply.end(int(f.nc.MaxPayload()))
	if err != nil {
		// The views have grown since the survey.
		f.takeBack(ctx, viewer, found.added)
		return nil, err
	}
	return data, nil
}

// checkLimits refuses what would exceed a limit before anything is changed.
func (f *Fanout) checkLimits(found outcome) error {
	if limit := int(f.nc.MaxPayload()); found.size > limit {
		return tooLarge(found.size, limit)
	}
	if len(found.added) == 0 {
		f.metrics.resyncs.Inc()
		return nil
	}
	if total := found.held + len(found.added); total > subjects.MaxTargets {
		return subjects.Errorf(subjects.CodeTooManyTargets, "%d targets in all, the limit is %d", total, subjects.MaxTargets)
	}
	return nil
}

// takeBack unsubscribes a viewer from what was added a moment ago. If that fails, the
// viewer is subscribed to more than it was told, which it sees at its next refresh.
func (f *Fanout) takeBack(ctx context.Context, viewer string, added []string) {
	if len(added) == 0 {
		return
	}
	d, err := f.divide(f.sharesOf(added))
	if err == nil {
		_, err = f.do(ctx, job{kind: wire.PeerRequest_KIND_UNSUBSCRIBE, id: viewer}, d)
	}
	if err != nil {
		f.cfg.Logger.Warn("too large a subscription was not taken back", "err", err)
	}
}

func (f *Fanout) get(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	d, err := f.divide(f.sharesOf(targets))
	if err != nil {
		return nil, err
	}
	return f.answerOf(ctx, job{wire.PeerRequest_KIND_GET, viewer, f.ask(ctx, viewer, targets)}, d)
}

// unsubscribe is from all if no targets are named.
func (f *Fanout) unsubscribe(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	shares := f.sharesOf(targets)
	if len(targets) == 0 {
		shares = f.everyShard()
	}
	d, err := f.divide(shares)
	if err != nil {
		return nil, err
	}
	return f.answerOf(ctx, job{kind: wire.PeerRequest_KIND_UNSUBSCRIBE, id: viewer}, d)
}

func (f *Fanout) refresh(ctx context.Context, viewer string) ([]byte, error) {
	d, err := f.divide(f.everyShard())
	if err != nil {
		return nil, err
	}
	return f.answerOf(ctx, job{kind: wire.PeerRequest_KIND_REFRESH, id: viewer}, d)
}

// answerOf does a job and returns what the viewer is told.
func (f *Fanout) answerOf(ctx context.Context, j job, d division) ([]byte, error) {
	done, err := f.do(ctx, j, d)
	if err != nil {
		return nil, err
	}
	return done.reply.end(int(f.nc.MaxPayload()))
}
