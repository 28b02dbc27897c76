package fanout

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/limits"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
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
	endpoint
	id       string // of the viewer, or of the user whose policy it is
	received string // the subject on which NATS delivered it
	reply    string // where the answer goes
	body     []byte
}

// A desk works through the requests of its share of viewers and users, and passes those on
// that another fanout handles.
type desk struct {
	queue, away chan call
	allowances  *limits.Limits
}

// serviceVersion is the version of the viewers' contract.
const serviceVersion = "1.0.0"

// answer starts the micro service and the desks. They end with ctx; stop ends the
// service sooner.
func (f *Fanout) answer(ctx context.Context, group *errgroup.Group) (stop func(), err error) {
	for range desks {
		d := &desk{queue: make(chan call, deskQueue), away: make(chan call, deskQueue), allowances: limits.New(f.cfg.RequestRate, f.cfg.RequestBurst)}
		f.desks = append(f.desks, d)
		group.Go(func() error { f.work(ctx, d.queue, f.handle); return nil })
		group.Go(func() error { f.work(ctx, d.away, f.passOn); return nil })
	}
	service, err := micro.AddService(f.nc, micro.Config{
		Name: f.fabric.Service(), Version: serviceVersion, Description: "Presence of users, as far as a viewer may know.",
	})
	if err != nil {
		return nil, fmt.Errorf("fanout: service: %w", err)
	}
	stop = func() { service.Stop() } // fails only when the connection is closed already
	for _, e := range f.endpoints() {
		handler := micro.HandlerFunc(func(r micro.Request) { f.accept(e, r.Subject(), r.Reply(), r.Data()) })
		if err := service.AddEndpoint(e.label, handler, micro.WithEndpointSubject(e.subject)); err != nil {
			stop()
			return nil, fmt.Errorf("fanout: endpoint %s: %w", e.label, err)
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

// An endpoint is one operation of the service.
type endpoint struct {
	label, subject string
	allowance      string // before the id: what viewers ask does not use up what their policies may change
	perform        func(ctx context.Context, id string, body []byte) ([]byte, error)
}

func (f *Fanout) endpoints() (all []endpoint) {
	for _, op := range subjects.Ops {
		all = append(all, endpoint{string(op), f.fabric.Requests(op), "req.", func(ctx context.Context, viewer string, body []byte) ([]byte, error) {
			return f.performOp(ctx, op, viewer, body)
		}})
	}
	for _, op := range subjects.PolicyOps {
		all = append(all, endpoint{"policy-" + string(op), f.fabric.Policies(op), "policy.", func(ctx context.Context, user string, body []byte) ([]byte, error) {
			return f.performPolicy(ctx, op, user, body)
		}})
	}
	return all
}

// accept takes a request that NATS delivered here; another fanout may be the one that
// handles those of its viewer.
func (f *Fanout) accept(e endpoint, subject, reply string, body []byte) {
	id, err := f.fabric.ParseRequest(subject)
	if err != nil {
		f.refuse(e.label, reply, subjects.Errorf(subjects.CodeInvalidRequest, "subject: %v", err))
		return
	}
	c := call{e, id, subject, reply, body}
	if f.homeOf(id) != nil {
		f.wait(f.deskOf(id).away, c)
		return
	}
	f.take(c)
}

// take accepts a request that is handled here.
func (f *Fanout) take(c call) {
	d := f.deskOf(c.id)
	if wait := d.allowances.Take(c.allowance+c.id, time.Now()); wait > 0 {
		f.refuse(c.label, c.reply, subjects.Errorf(subjects.CodeRateLimited, "more than %d requests a second, try again in %s",
			f.cfg.RequestRate, wait.Round(10*time.Millisecond)))
		return
	}
	f.wait(d.queue, c)
}

// wait has a request wait for its turn.
func (f *Fanout) wait(queue chan<- call, c call) {
	f.waiting.Add(1)
	select {
	case queue <- c:
	default:
		f.waiting.Add(-1)
		f.refuse(c.label, c.reply, subjects.Errorf(subjects.CodeUnavailable, "too many requests are waiting"))
	}
}

func (f *Fanout) deskOf(id string) *desk { return f.desks[f.placeOf(id)] }

func (f *Fanout) placeOf(id string) uint64 { return maphash.String(f.seed, id) % desks }

func (f *Fanout) work(ctx context.Context, queue <-chan call, do func(context.Context, call)) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-queue:
			do(ctx, c)
			f.waiting.Add(-1)
		}
	}
}

func (f *Fanout) handle(ctx context.Context, c call) {
	var data []byte
	err := guarded(c.label, func() (err error) { data, err = c.perform(ctx, c.id, c.body); return err })
	var refusal *subjects.Error
	switch {
	case errors.As(err, &refusal):
		f.refuse(c.label, c.reply, refusal)
	case err != nil:
		f.cfg.Logger.Error("request failed", "op", c.label, "err", err)
		f.refuse(c.label, c.reply, subjects.Errorf(subjects.CodeInternal, "internal error"))
	default:
		f.metrics.requests.WithLabelValues(c.label, string(codeOK)).Inc()
		f.reply(c.reply, &nats.Msg{Data: data})
	}
}

// guarded carries out a request. One request's defect must not end the service of
// all others, so a panic becomes an internal error.
func guarded(label string, perform func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fanout: panic in %s: %v\n%s", label, p, debug.Stack())
		}
	}()
	return perform()
}

// performOp carries out an operation of a viewer.
func (f *Fanout) performOp(ctx context.Context, op subjects.Op, viewer string, body []byte) ([]byte, error) {
	if op == subjects.OpRefresh {
		return f.refresh(ctx, viewer)
	}
	request, err := subjects.DecodeRequest(body, op != subjects.OpUnsubscribe)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	switch op {
	case subjects.OpGet:
		return f.get(ctx, viewer, request.Targets)
	case subjects.OpUnsubscribe:
		return f.unsubscribe(ctx, viewer, request.Targets)
	}
	return f.subscribe(ctx, viewer, request.Targets)
}

func (f *Fanout) refuse(label, reply string, e *subjects.Error) {
	f.metrics.requests.WithLabelValues(label, string(e.Code)).Inc()
	f.reply(reply, &nats.Msg{Header: nats.Header{
		micro.ErrorCodeHeader: {string(e.Code)}, micro.ErrorHeader: {e.Message},
	}})
}

// reply answers a request. It is not left to the request itself, because the service
// looks at that when its handler returns, and a desk answers later. An answer that
// gets lost is missed by a viewer, who asks again.
//
// Whoever asks names the subject of the answer, and the server does not ask whether
// they may publish there, only whether the fanout may: it answers to inboxes other than
// those of fanouts, so that nobody gets it to write records or to answer a peer.
func (f *Fanout) reply(to string, answer *nats.Msg) {
	if !strings.HasPrefix(to, nats.InboxPrefix) || strings.HasPrefix(to, identity.Inbox(identity.Fanout, "")) {
		f.metrics.malformed.Inc()
		return
	}
	answer.Subject = to
	if err := f.nc.PublishMsg(answer); err != nil {
		f.cfg.Logger.Debug("answer not sent", "err", err)
	}
}
