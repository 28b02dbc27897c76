package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/filelock"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
)

// Options are what an [Archiver] needs beside a [Config].
type Options struct {
	Config
	// Retention is how long streams keep what is archived; what is older, by the store's
	// clock, is purged. It is asked after every commit; 0 leaves all to the streams. Nil
	// is 0.
	Retention func(context.Context) (time.Duration, error)
	// Once ends when everything is archived that was stored when that was read.
	Once       bool
	Registerer prometheus.Registerer // of the metrics; nil for none
	Logger     *slog.Logger          // default: nobody hears
}

// An Archiver archives a fabric. Use [New].
type Archiver struct {
	place
	js     jetstream.JetStream
	names  subjects.Names
	opt    Options
	counts *counts
}

// New checks the options.
func New(js jetstream.JetStream, names subjects.Names, opt Options) (*Archiver, error) {
	var err error
	if opt.Config, err = opt.Config.withDefaults(); err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Retention == nil {
		opt.Retention = func(context.Context) (time.Duration, error) { return 0, nil }
	}
	counts, err := newCounts(opt.Registerer)
	if err != nil {
		return nil, err
	}
	return &Archiver{place{opt.disk, opt.Dir}, js, names, opt, counts}, nil
}

// Run archives until ctx ends, and commits what was read. It fails with [ErrBusy] while
// another process archives into the directory.
func (a *Archiver) Run(ctx context.Context) error {
	if err := a.make(ctx, a.names.Prefix(), a.names.Shards()); err != nil {
		return err
	}
	lock, err := filelock.Try(a.path(archiverLock), filelock.Exclusive)
	if errors.Is(err, filelock.ErrHeld) {
		return fmt.Errorf("%w: %s", ErrBusy, a.dir)
	}
	if err != nil {
		return wrap("lock", err)
	}
	defer lock.Release()
	if err := a.start(ctx); err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	committed := make(chan struct{}, 1)
	shards, filing := errgroup.WithContext(running)
	for shard := range a.names.Shards() {
		shards.Go(func() error { return a.shard(filing, shard, committed) })
	}
	group.Go(func() error {
		defer close(committed)
		return shards.Wait()
	})
	group.Go(func() error { return a.compactAll(running, committed) })
	return group.Wait()
}

// start removes what a process left that was killed.
func (a *Archiver) start(ctx context.Context) error {
	lock, err := a.lock(ctx, manifestLock, filelock.Exclusive)
	if err != nil {
		return wrap("lock", err)
	}
	defer lock.Release()
	m, err := a.load()
	if err != nil {
		return err
	}
	return wrap("tidy", a.tidy(m))
}

// compactAll merges files whenever an hour may have ended, until there are no commits
// any more.
func (a *Archiver) compactAll(ctx context.Context, committed <-chan struct{}) error {
	for range committed {
		for {
			n, err := a.compact(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // archiving goes on, and so does reading all but what is damaged
				a.opt.Logger.Error("merging files", "err", err)
			}
			if n == 0 {
				break
			}
			a.counts.merged.Add(int64(n))
			a.opt.Logger.Info("merged", "files", n)
		}
	}
	return nil
}

// shard follows the streams of one. What makes it read again starts it anew.
func (a *Archiver) shard(ctx context.Context, shard int, committed chan<- struct{}) error {
	w, err := NewWriter(ctx, a.names, shard, a.opt.Config)
	if err != nil {
		return err
	}
	log := a.opt.Logger.With("shard", shard)
	for {
		f := &follower{Archiver: a, Writer: w, log: log, committed: committed}
		err := f.run(ctx)
		var lost *feed.RollbackError
		switch {
		case errors.Is(err, ErrForgotten):
			log.Info("a user was forgotten; what was not committed is read again")
		case errors.As(err, &lost):
			if err := a.pastLoss(ctx, w, lost); err != nil {
				return err
			}
			log.Warn("a stream has lost what is archived; going on behind it", "stream", lost.Stream)
		default:
			return err
		}
	}
}

// pastLoss has a writer go on with what was stored since it last read. A stream that has
// lost its tail gives the sequences out again.
func (a *Archiver) pastLoss(ctx context.Context, w *Writer, lost *feed.RollbackError) error {
	beats := lost.Stream == a.names.BeatsStream(w.shard)
	since := w.reader.LogTime
	if beats {
		since = w.reader.BeatsTime
	}
	stream, err := a.js.Stream(ctx, lost.Stream)
	if err != nil {
		return wrap("a stream that has lost messages", err)
	}
	since = since.Add(1)
	// What a consumer would begin with says where to go on.
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return wrap("a stream that has lost messages", err)
	}
	last := consumer.CachedInfo().Delivered.Stream
	if beats {
		w.reader.Beats, w.reader.BeatsTime = last, time.Time{}
	} else {
		w.reader.Log, w.reader.LogTime = last, time.Time{}
	}
	w.reader.Marks = nil // of sequences that mean something else now
	return nil
}

// A follower archives one shard until it must begin again.
type follower struct {
	*Archiver
	*Writer
	log       *slog.Logger
	committed chan<- struct{}

	watermark int64
	fresh     bool // something was read since the last commit
}

func (f *follower) run(ctx context.Context) error {
	steps := make(chan raw.Step)
	group, following := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(steps)
		return raw.Follow(following, f.js, f.Writer.names, f.Writer.shard, f.Position(), func(s raw.Step) error {
			select {
			case steps <- s:
			case <-following.Done():
				return following.Err()
			}
			if s.Ended && f.opt.Once {
				return raw.ErrStop
			}
			return nil
		})
	})
	group.Go(func() error { return f.take(following, steps) })
	err := group.Wait()
	if !f.fresh || err != nil && ctx.Err() == nil {
		return err
	}
	// The last commit, also when interrupted: else all of it would be read again.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(f.commit(closing), ctx.Err())
}

// take archives steps, and commits from time to time.
func (f *follower) take(ctx context.Context, steps <-chan raw.Step) error {
	every := time.NewTicker(f.opt.Every)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, ok := <-steps:
			if !ok {
				return nil
			}
			if err := f.step(s); err != nil {
				return err
			}
		case <-every.C:
			if !f.fresh {
				continue
			}
			if err := f.commit(ctx); err != nil {
				return err
			}
		}
	}
}

func (f *follower) step(s raw.Step) error {
	for _, m := range s.Msgs {
		f.fresh = true
		if err := f.Add(m); err != nil {
			return err
		}
	}
	f.watermark = max(f.watermark, s.Watermark)
	f.counts.behind.With(shardLabel(f.Writer.shard)).Set(float64(s.Behind))
	return nil
}

// commit makes what was read count, and then lets the streams go of what they need not
// keep any more.
func (f *follower) commit(ctx context.Context) error {
	before := f.Writer.Committed()
	if err := f.Commit(ctx, f.watermark); err != nil {
		return err
	}
	f.fresh = false
	now := f.Writer.Committed()
	f.counts.events.Add(now.Events - before.Events)
	f.counts.rejected.Add(now.Rejected - before.Rejected)
	f.counts.through.With(shardLabel(f.Writer.shard)).Set(float64(f.watermark) / 1000)
	f.log.Info("archived", "events", now.Events-before.Events, "rejected", now.Rejected-before.Rejected, "through", time.UnixMilli(f.watermark).UTC())
	f.purge(ctx)
	select {
	case f.committed <- struct{}{}:
	default:
	}
	return nil
}

// purge removes from the streams what is archived and old enough. What fails is done
// after the next commit.
func (f *follower) purge(ctx context.Context) {
	retention, err := f.opt.Retention(ctx)
	if err != nil {
		f.log.Warn("how long streams keep what is archived", "err", err)
		return
	}
	k, ok := f.due(retention)
	if retention <= 0 || !ok {
		return
	}
	for stream, seq := range map[string]uint64{f.Writer.names.LogStream(f.Writer.shard): k.Log, f.Writer.names.BeatsStream(f.Writer.shard): k.Beats} {
		if err := f.purgeStream(ctx, stream, seq); err != nil {
			f.log.Warn("purging what is archived", "stream", stream, "err", err)
			return
		}
	}
	f.purged(k)
	f.log.Info("purged what is archived", "log", k.Log, "beats", k.Beats)
}

func (f *follower) purgeStream(ctx context.Context, name string, last uint64) error {
	stream, err := f.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	if stream.CachedInfo().State.FirstSeq > last {
		return nil
	}
	return stream.Purge(ctx, jetstream.WithPurgeSequence(last+1))
}
