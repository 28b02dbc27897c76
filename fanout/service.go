package fanout

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/subjects"
)

// Requests of one viewer are handled one after the other: each viewer belongs to one
// desk. Those of one operation keep their order; each operation is a subscription of
// its own, so two of them may pass each other on the way here. When a desk's queue is full the
// request is refused as unavailable, and the client tries again later.
const (
	desks     = 64
	deskQueue = 64
	// storeTimeout is how long a request waits for the store.
	storeTimeout = 3 * time.Second
	// startTimeout is how long the server may take to know the service.
	startTimeout = 10 * time.Second
)

// A call is a request that waits at a desk.
type call struct {
	op      subjects.Op
	viewer  string
	request micro.Request
}

// serviceVersion is the version of the viewers' contract.
const serviceVersion = "1.0.0"

// answer starts the micro service and the desks. They end with ctx; stop ends the
// service sooner.
func (f *Fanout) answer(ctx context.Context, group *errgroup.Group) (stop func(), err error) {
	f.background = func(work func()) { group.Go(func() error { work(); return nil }) }
	for range desks {
		desk := make(chan call, deskQueue)
		f.desks = append(f.desks, desk)
		group.Go(func() error { f.work(ctx, desk); return nil })
	}
	service, err := micro.AddService(f.nc, micro.Config{
		Name: f.fabric.Service(), Version: serviceVersion, Description: "Presence of users, as far as a viewer may know.",
	})
	if err != nil {
		return nil, fmt.Errorf("fanout: service: %w", err)
	}
	stop = func() { service.Stop() } // fails only when the connection is closed already
	seed := maphash.MakeSeed()
	for _, op := range subjects.Ops {
		handler := micro.HandlerFunc(func(r micro.Request) { f.accept(op, seed, r) })
		if err := service.AddEndpoint(string(op), handler, micro.WithEndpointSubject(f.fabric.Requests(op))); err != nil {
			stop()
			return nil, fmt.Errorf("fanout: endpoint %s: %w", op, err)
		}
	}
	// The server must know the subscriptions before anybody is told to ask.
	flushing, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := f.nc.FlushWithContext(flushing); err != nil {
		stop()
		return nil, fmt.Errorf("fanout: service: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answering = true
	f.checkReadyLocked()
	return stop, nil
}

// accept hands a request to its viewer's desk.
func (f *Fanout) accept(op subjects.Op, seed maphash.Seed, r micro.Request) {
	viewer, err := f.fabric.ParseRequest(r.Subject())
	if err != nil {
		f.refuse(op, r, subjects.Errorf(subjects.CodeInvalidRequest, "viewer: %v", err))
		return
	}
	desk := f.desks[maphash.String(seed, viewer)%desks]
	select {
	case desk <- call{op, viewer, r}:
	default:
		f.refuse(op, r, subjects.Errorf(subjects.CodeUnavailable, "too many requests are waiting"))
	}
}

func (f *Fanout) work(ctx context.Context, desk <-chan call) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-desk:
			f.handle(ctx, c)
		}
	}
}

func (f *Fanout) handle(ctx context.Context, c call) {
	data, err := f.perform(ctx, c)
	var refusal *subjects.Error
	switch {
	case errors.As(err, &refusal):
		f.refuse(c.op, c.request, refusal)
	case err != nil:
		f.cfg.Logger.Error("request failed", "op", c.op, "err", err)
		f.refuse(c.op, c.request, subjects.Errorf(subjects.CodeInternal, "internal error"))
	default:
		f.metrics.requests.WithLabelValues(string(c.op), string(codeOK)).Inc()
		f.reply(c.request, &nats.Msg{Data: data})
	}
}

// perform carries out a request. One request's defect must not end the service of
// all others, so a panic becomes an internal error.
func (f *Fanout) perform(ctx context.Context, c call) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fanout: panic in %s: %v\n%s", c.op, p, debug.Stack())
		}
	}()
	needTargets := c.op == subjects.OpSubscribe || c.op == subjects.OpGet
	request := subjects.Request{}
	if c.op != subjects.OpRefresh {
		if request, err = subjects.DecodeRequest(c.request.Data(), needTargets); err != nil {
			return nil, err
		}
	}
	switch c.op {
	case subjects.OpRefresh:
		return f.refresh(ctx, c.viewer)
	case subjects.OpGet:
		return f.get(c.viewer, request.Targets)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if c.op == subjects.OpUnsubscribe {
		return f.unsubscribe(ctx, c.viewer, request.Targets)
	}
	return f.subscribe(ctx, c.viewer, request.Targets)
}

func (f *Fanout) refuse(op subjects.Op, r micro.Request, e *subjects.Error) {
	f.metrics.requests.WithLabelValues(string(op), string(e.Code)).Inc()
	f.reply(r, &nats.Msg{Header: nats.Header{
		micro.ErrorCodeHeader: {string(e.Code)}, micro.ErrorHeader: {e.Message},
	}})
}

// reply answers a request. It is not left to the request itself, because the service
// looks at that when its handler returns, and a desk answers later. An answer that
// gets lost is missed by a viewer, who asks again.
func (f *Fanout) reply(r micro.Request, answer *nats.Msg) {
	answer.Subject = r.Reply()
	if err := f.nc.PublishMsg(answer); err != nil {
		f.cfg.Logger.Debug("answer not sent", "err", err)
	}
}
