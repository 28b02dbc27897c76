package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

const (
	// canaryTTL is the shortest that the store takes.
	canaryTTL = time.Second
	// canaryPatience is how much later the store may notice.
	canaryPatience = 3 * time.Second
	// kindCanary is the kind of a key that no part of a fabric reads.
	kindCanary = "canary"
)

// expiry puts a key that expires into every bucket and sees whether it does, and whether
// watchers hear of it: leases and interests depend on both.
func (e *examination) expiry(ctx context.Context) (findings []Finding) {
	var mu sync.Mutex
	var all sync.WaitGroup
	buckets, slowest, full := 0, time.Duration(0), error(nil)
	for _, s := range e.infos {
		if !s.expires {
			continue
		}
		buckets++
		all.Go(func() {
			took, err := e.canary(ctx, s.bucket)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case fabric.Full(err):
				full = err
			case err != nil:
				findings = append(findings, finding("expiry", Problem, "bucket %s: %v", s.bucket, err))
			}
			slowest = max(slowest, took)
		})
	}
	all.Wait()
	if full != nil { // on one server or on all
		findings = append(findings, finding("storage", Problem, "the store is full and refuses writes (%v): nobody goes online or offline; "+
			"make room on the servers or raise their max_file_store (docs/production.md)", full))
	}
	if len(findings) == 0 {
		findings = append(findings, finding("expiry", OK, "%s end a key of %s after %s or sooner, and say so", count(buckets, "bucket"), canaryTTL, round(slowest)))
	}
	return findings
}

var errStays = errors.New("a key stays although its time is over")

// canary says how long a key lived that was to live for canaryTTL.
func (e *examination) canary(ctx context.Context, bucket string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTTL+canaryPatience+answerTimeout)
	defer cancel()
	subject := subjects.KVSubject(bucket, kindCanary+"."+rand.Text())
	stream, err := e.js.Stream(ctx, subjects.KVStream(bucket))
	if err != nil {
		return 0, err
	}
	ended := make(chan time.Duration, 1)
	begin := time.Now()
	heard, err := e.nc.Subscribe(subject, func(m *nats.Msg) {
		if subjects.KVGone(m.Header) {
			select {
			case ended <- time.Since(begin):
			default:
			}
		}
	})
	if err != nil {
		return 0, err
	}
	defer heard.Unsubscribe()
	ack, err := e.js.PublishMsg(ctx, &nats.Msg{Subject: subject}, jetstream.WithMsgTTL(canaryTTL))
	if err != nil {
		return 0, fmt.Errorf("a key that expires is refused: %w", err)
	}
	defer e.bury(stream, subject)
	for wait := canaryTTL; ; wait = 250 * time.Millisecond {
		select {
		case took = <-ended:
			return took, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
		// Markers are not published where the server does not do so: the stream tells.
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case err == nil && last.Sequence != ack.Sequence && subjects.KVGone(last.Header):
			return time.Since(begin), nil
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, errors.New("a key that expires leaves no trace, so that nobody hears of it; 'rollcall init' repairs that")
		case err != nil:
			return 0, err
		case time.Since(begin) > canaryTTL+canaryPatience:
			return 0, errStays
		}
	}
}

// bury removes what is left of a canary.
func (e *examination) bury(stream jetstream.Stream, subject string) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	stream.Purge(ctx, jetstream.WithPurgeSubject(subject)) // else it ends with the marker, in an hour
}
