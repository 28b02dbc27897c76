package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// chunk is how many targets one request names: request and answer stay below the
// message limit of a server that nobody has configured.
const chunk = 1000

// Watch adds targets and returns when the first answer for each of them is in. It
// waits for [Client.Run] to begin, and tries again while the fanout is away. It fails
// with [ErrEnded] when Run ends before.
//
// If ctx ends before, the targets stay watched and are answered when the fanout is
// back. If the fanout refuses them, the error is a [*subjects.Error], and those
// that were not watched before are not watched now.
func (c *Client) Watch(ctx context.Context, targets ...string) error {
	if err := checkTargets(targets); err != nil {
		return err
	}
	if err := c.begun(ctx); err != nil {
		return err
	}
	var added []string
	err := error(nil)
	c.update(func(r *Reducer) {
		added = r.Want(targets...)
		if total := r.Wanted(); total > subjects.MaxTargets {
			r.Unwant(added...)
			err = subjects.Errorf(subjects.CodeTooManyTargets, "%d targets in all, the limit is %d", total, subjects.MaxTargets)
		}
	})
	if err != nil {
		return err
	}
	accepted := 0
	for part := range chunks(targets) {
		if err = c.insist(ctx, func() error { return c.subscribe(ctx, part, nil) }); err != nil {
			break
		}
		accepted++
	}
	switch {
	case refused(err) && accepted > 0 && len(added) > 0:
		c.Unwatch(ctx, added...) // what fails here ends with the interest
	case refused(err):
		c.update(func(r *Reducer) { r.Unwant(added...) })
		c.queue.drop(added...)
	case err != nil:
		c.update(func(*Reducer) { c.abandoned = true })
	}
	return err
}

// Unwatch removes targets; nothing is delivered for them afterwards. It is
// idempotent. If it fails, the fanout may go on telling of them, which does no
// harm, until the viewer's interest ends.
func (c *Client) Unwatch(ctx context.Context, targets ...string) error {
	if len(targets) == 0 {
		return nil // to the fanout, no targets would mean all
	}
	if err := checkTargets(targets); err != nil {
		return err
	}
	if err := c.begun(ctx); err != nil {
		return err
	}
	var left func()
	c.update(func(r *Reducer) {
		left = r.Leave(targets...)
		r.Unwant(targets...)
	})
	c.queue.drop(targets...)
	defer c.update(func(*Reducer) { left() })
	for part := range chunks(targets) {
		if err := c.insist(ctx, func() error { return c.unsubscribe(ctx, part) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) unsubscribe(ctx context.Context, targets []string) error {
	reply, err := c.ask(ctx, subjects.OpUnsubscribe, func() []string { return targets })
	if err == nil {
		c.update(func(r *Reducer) { r.Unsubscribed(reply, time.Now()) })
	}
	return err
}

// Get returns the views of targets once. A target that the viewer may not see is
// not in the result. If the feed of its shard is stalled, the status is unknown.
func (c *Client) Get(ctx context.Context, targets ...string) (map[string]State, error) {
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	once := NewReducer()
	once.Want(targets...)
	for part := range chunks(targets) {
		err := c.insist(ctx, func() error {
			return halving(part, func(part []string) error { return c.get(ctx, part, once) })
		})
		if err != nil {
			return nil, err
		}
	}
	states := make(map[string]State)
	for _, t := range targets {
		if state, ok := once.State(t); ok {
			states[t] = state
		}
	}
	return states, nil
}

func (c *Client) get(ctx context.Context, targets []string, once *Reducer) error {
	reply, err := c.ask(ctx, subjects.OpGet, func() []string { return targets })
	if err == nil {
		once.Reply(reply, Answer{Asked: targets}, time.Now())
		c.update(func(r *Reducer) { r.Reply(reply, Answer{Asked: targets, Once: true}, time.Now()) })
	}
	return err
}

// halving asks for the targets in ever smaller parts while the answer is too large
// for the server.
func halving(targets []string, ask func([]string) error) error {
	err := ask(targets)
	if len(targets) < 2 || !errors.Is(err, &subjects.Error{Code: subjects.CodeTooLarge}) {
		return err
	}
	half := len(targets) / 2
	if err := halving(targets[:half], ask); err != nil {
		return err
	}
	return halving(targets[half:], ask)
}

func checkTargets(targets []string) error {
	if len(targets) == 0 {
		return subjects.Errorf(subjects.CodeNoTargets, "name at least one target")
	}
	if len(targets) > subjects.MaxTargets {
		return subjects.Errorf(subjects.CodeTooManyTargets, "%d targets, the limit is %d", len(targets), subjects.MaxTargets)
	}
	for i, t := range targets {
		if err := rollcall.CheckID(t); err != nil {
			return subjects.Errorf(subjects.CodeInvalidID, "target %d: %v", i, err)
		}
	}
	return nil
}

// begun waits for Run to begin and fails if it has ended.
func (c *Client) begun(ctx context.Context) error {
	select {
	case <-c.started:
	case <-c.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.ended:
		return ErrEnded
	default:
		return nil
	}
}

// errStale says that a fanout answered that no longer owns a shard.
var errStale = errors.New("viewer: answered by a former owner")

// subscribe asks for those of the targets that are still wanted. base counts the
// shards that a resync has an answer from; nil is no resync.
func (c *Client) subscribe(ctx context.Context, targets []string, base *resync) error {
	return halving(targets, func(part []string) error { return c.subscribePart(ctx, part, base) })
}

func (c *Client) subscribePart(ctx context.Context, targets []string, base *resync) error {
	var asked []string
	reply, err := c.ask(ctx, subjects.OpSubscribe, func() []string {
		asked = c.stillWanted(targets)
		return asked
	})
	if err != nil || len(asked) == 0 {
		return err
	}
	fresh := true
	c.update(func(r *Reducer) {
		fresh = r.Reply(reply, Answer{Asked: asked, Base: base.first(reply)}, time.Now())
	})
	if !fresh {
		return errStale
	}
	return nil
}

func (c *Client) stillWanted(targets []string) (wanted []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range targets {
		if c.reducer.Wants(t) {
			wanted = append(wanted, t)
		}
	}
	return wanted
}

// ask sends one request. Which targets it names is decided when it is its turn;
// none means that there is nothing to ask any more, except for a refresh.
func (c *Client) ask(ctx context.Context, op subjects.Op, targets func() []string) (subjects.Reply, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return subjects.Reply{}, ctx.Err()
	}
	var body []byte
	if op != subjects.OpRefresh {
		names := targets()
		if len(names) == 0 {
			return subjects.Reply{}, nil
		}
		var err error
		if body, err = json.Marshal(subjects.Request{Targets: names}); err != nil {
			return subjects.Reply{}, fmt.Errorf("viewer: %s: %w", op, err)
		}
	}
	m, err := c.request(ctx, c.names.Request(op, c.cfg.Viewer), body)
	if err != nil {
		return subjects.Reply{}, fmt.Errorf("viewer: %s: %w", op, err)
	}
	return decodeAnswer(m)
}

// tries is how often a request is sent in the first half of its timeout. NATS may hand it to a
// fanout that hangs, and the next time to another one.
const tries = 5

// request returns what comes first of any of the tries.
func (c *Client) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	type answer struct {
		m   *nats.Msg
		err error
	}
	answers := make(chan answer, tries)
	for range tries {
		go func() {
			m, err := c.nc.RequestWithContext(ctx, subject, body)
			answers <- answer{m, err}
		}()
		select {
		case a := <-answers:
			return a.m, a.err
		case <-time.After(c.cfg.Timeout / tries / 2):
		}
	}
	a := <-answers
	return a.m, a.err
}

func decodeAnswer(m *nats.Msg) (subjects.Reply, error) {
	if err := refusalOf(m); err != nil {
		return subjects.Reply{}, err
	}
	return subjects.DecodeReply(m.Data)
}

// refusalOf is what an answer refuses, nil if it does not.
func refusalOf(m *nats.Msg) error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	return &subjects.Error{Code: subjects.Code(code), Message: m.Header.Get(micro.ErrorHeader)}
}

// refused says that trying again does not help.
func refused(err error) bool {
	var refusal *subjects.Error
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Code {
	case subjects.CodeUnavailable, subjects.CodeRateLimited, subjects.CodeInternal:
		return false
	}
	return true
}

// insist tries until it works, is refused, or ctx or Run ends.
func (c *Client) insist(ctx context.Context, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || refused(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-c.ended:
			return errors.Join(ErrEnded, err)
		case <-time.After(backoff(attempt)):
		}
	}
}

// backoff is a random pause that grows from a quarter of a second to ten seconds.
func backoff(attempt int) time.Duration {
	return retry.Backoff(attempt, 250*time.Millisecond, 10*time.Second, rand.Int64N)
}

// chunks splits targets into requests.
func chunks(targets []string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for len(targets) > 0 {
			n := min(len(targets), chunk)
			if !yield(targets[:n]) {
				return
			}
			targets = targets[n:]
		}
	}
}
