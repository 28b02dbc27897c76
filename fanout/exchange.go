package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	// partTimeout is how long a fanout may take for its part of another one's request,
	// and callTimeout how long that waits for it: a store that is slow is no reason to
	// take the peer for dead.
	partTimeout = time.Second
	callTimeout = partTimeout + 500*time.Millisecond
	// relayTimeout is how long a fanout may take to take over a whole request.
	relayTimeout = 500 * time.Millisecond
	// partWorkers is how many parts are under way at most, and partQueue how many wait.
	partWorkers = 64
	partQueue   = 1024
)

// listen takes what other fanouts ask and relay, until stop is called.
func (f *Fanout) listen(ctx context.Context, group *errgroup.Group) (stop func(), err error) {
	parts := make(chan *nats.Msg, partQueue)
	for range partWorkers {
		group.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case m := <-parts:
					f.serve(ctx, m)
				}
			}
		})
	}
	handlers := map[string]nats.MsgHandler{
		f.fabric.Peers(): f.hear,
		f.fabric.Peer(f.id): func(m *nats.Msg) {
			select {
			case parts <- m:
			default:
				f.respond(m, refused(subjects.Errorf(subjects.CodeUnavailable, "too many requests are waiting")))
			}
		},
	}
	for _, e := range f.endpoints() {
		handlers[f.fabric.Relay(f.id, e.subject)] = func(m *nats.Msg) { f.takeRelayed(e, m) }
	}
	var all []*nats.Subscription
	stop = func() {
		for _, s := range all {
			s.Unsubscribe() // fails only when the connection is closed already
		}
	}
	for subject, handler := range handlers {
		s, err := f.nc.Subscribe(subject, handler)
		if err != nil {
			stop()
			return nil, fmt.Errorf("fanout: peers: %w", err)
		}
		all = append(all, s)
	}
	return stop, nil
}

// passOn has a request handled by its home. A peer that does not take it is left aside, and
// the next one is its home, in the end this fanout itself.
func (f *Fanout) passOn(ctx context.Context, c call) {
	for ctx.Err() == nil {
		home := f.homeOf(c.id)
		if home == nil {
			f.take(c)
			return
		}
		err := f.relay(ctx, home.id, c)
		if err == nil {
			f.metrics.calls.WithLabelValues("ok").Inc()
			return
		}
		f.unanswered(home.id, err)
	}
}

// relay returns when the peer has taken the request: it answers whoever asked. Should it
// hang after that nobody does, and the viewer asks again.
func (f *Fanout) relay(ctx context.Context, to string, c call) error {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	_, err := f.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: f.fabric.Relay(to, c.received), Header: nats.Header{subjects.HeaderAnswerTo: {c.reply}}, Data: c.body,
	})
	return err
}

// takeRelayed takes a request that a peer was sent. It is not passed on again, even if the
// peers do not agree where it belongs.
func (f *Fanout) takeRelayed(e endpoint, m *nats.Msg) {
	id, err := f.fabric.ParseRequest(m.Subject)
	answerTo := m.Header.Get(subjects.HeaderAnswerTo)
	if err != nil || answerTo == "" {
		f.metrics.malformed.Inc() // the peer would have refused it
		return
	}
	f.take(call{e, id, m.Subject, answerTo, m.Data})
	if err := m.Respond(nil); err != nil {
		f.cfg.Logger.Debug("peer not told that its request was taken", "err", err)
	}
}

// unanswered leaves a peer aside that was asked for something.
func (f *Fanout) unanswered(peer string, err error) {
	f.metrics.calls.WithLabelValues("unanswered").Inc()
	f.mistrust(peer, err)
}

// call has a peer do its part of a job.
func (f *Fanout) call(ctx context.Context, j job, e errand) (outcome, error) {
	data, err := subjects.Encode(j.message(e.shares))
	if err != nil {
		return outcome{}, err
	}
	if limit := int(f.nc.MaxPayload()); len(data) > limit {
		return outcome{}, tooLarge(len(data), limit)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := f.nc.RequestWithContext(ctx, f.fabric.Peer(e.to), data)
	if err != nil {
		f.unanswered(e.to, err)
		return outcome{}, unavailable()
	}
	o, err := readOutcome(m.Data)
	if err != nil {
		f.metrics.calls.WithLabelValues("refused").Inc()
		f.askPeers()
		return outcome{}, err
	}
	f.metrics.calls.WithLabelValues("ok").Inc()
	return o, nil
}

// message is what a peer is asked.
func (j job) message(shares []share) *wire.PeerRequest {
	r := &wire.PeerRequest{Kind: j.kind, Id: j.id, Asked: j.said != nil}
	for _, s := range shares {
		w := &wire.PeerRequest_Share{Shard: uint32(s.number), Targets: s.targets, Revision: s.revision, Lost: s.lost}
		if j.said != nil {
			w.Verdicts = make([]wire.Granularity, len(s.targets))
			for i, t := range s.targets {
				w.Verdicts[i] = j.said[t]
			}
		}
		r.Shares = append(r.Shares, w)
	}
	return r
}

// readJob reads what a peer asks. Only fanouts can ask, so anything wrong is a defect.
func (f *Fanout) readJob(data []byte) (j job, shares []share, err error) {
	var r wire.PeerRequest
	if err := subjects.Decode(data, &r); err != nil {
		return job{}, nil, err
	}
	if err := rollcall.CheckID(r.Id); err != nil {
		return job{}, nil, err
	}
	j = job{kind: r.Kind, id: r.Id}
	if r.Asked {
		j.said = make(verdicts)
	}
	for i, w := range r.Shares {
		if i > 0 && w.Shard <= r.Shares[i-1].Shard {
			return job{}, nil, fmt.Errorf("%w: shard %d after %d", subjects.ErrMalformed, w.Shard, r.Shares[i-1].Shard)
		}
		if err := f.checkShare(w, j.said); err != nil {
			return job{}, nil, fmt.Errorf("%w: shard %d: %w", subjects.ErrMalformed, w.Shard, err)
		}
		shares = append(shares, share{number: int(w.Shard), targets: w.Targets, revision: w.Revision, lost: w.Lost})
	}
	return j, shares, nil
}

// checkShare adds the verdicts of a share, if there must be some, to what was said.
func (f *Fanout) checkShare(w *wire.PeerRequest_Share, said verdicts) error {
	switch {
	case w.Shard >= uint32(f.fabric.Shards()):
		return errors.New("beyond the last")
	case said != nil && len(w.Verdicts) != len(w.Targets):
		return fmt.Errorf("%d verdicts on %d targets", len(w.Verdicts), len(w.Targets))
	}
	for i, t := range w.Targets {
		if err := rollcall.CheckID(t); err != nil {
			return err
		}
		if n := f.fabric.Shard(t); n != int(w.Shard) {
			return fmt.Errorf("%q is of shard %d", t, n)
		}
		if said == nil {
			continue
		}
		if said[t] = w.Verdicts[i]; said[t] < 0 || said[t] > wire.Granularity_GRANULARITY_EXACT {
			return fmt.Errorf("verdict %d", said[t])
		}
	}
	return nil
}

// serve does a part of another fanout's request.
func (f *Fanout) serve(ctx context.Context, m *nats.Msg) {
	j, shares, err := f.readJob(m.Data)
	if err != nil {
		f.metrics.malformed.Inc()
		f.cfg.Logger.Warn("request of a peer ignored", "err", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var o outcome
	err = guarded("part "+j.kind.String(), func() (err error) { o, err = f.performOwned(ctx, j, shares); return err })
	var refusal *subjects.Error
	switch {
	case errors.As(err, &refusal):
		f.respond(m, refused(refusal))
	case err != nil:
		f.cfg.Logger.Error("part of a request failed", "err", err)
		f.respond(m, refused(subjects.Errorf(subjects.CodeInternal, "internal error")))
	default:
		f.respond(m, o.message())
	}
}

// performOwned does a job if all its shards are owned here.
func (f *Fanout) performOwned(ctx context.Context, j job, shares []share) (outcome, error) {
	f.mu.Lock()
	for i := range shares {
		shares[i].shard = f.shards[shares[i].number]
	}
	f.mu.Unlock()
	if slices.ContainsFunc(shares, func(s share) bool { return s.shard == nil }) {
		return outcome{}, unavailable()
	}
	return f.perform(ctx, j, shares)
}

// message is what the peer is answered.
func (o outcome) message() *wire.PeerReply {
	r := &wire.PeerReply{Added: o.added, Size: uint64(o.size), Held: uint64(o.held)}
	if o.reply != nil {
		for _, p := range o.reply.pieces {
			r.Parts = append(r.Parts, &wire.PeerReply_Part{Shard: uint32(p.shard), Data: o.reply.bytes(p)})
		}
	}
	for n, position := range o.reads {
		r.Parts = append(r.Parts, &wire.PeerReply_Part{Shard: uint32(n), Position: position})
	}
	if v := o.view; v != nil {
		r.View = &wire.View{State: wire.State(v.State), Activity: v.Activity, Observed: int64(v.Observed), Seen: int64(v.Seen)}
	}
	return r
}

// readOutcome reads an answer; a refusal is an error.
func readOutcome(data []byte) (outcome, error) {
	var r wire.PeerReply
	if err := subjects.Decode(data, &r); err != nil {
		return outcome{}, err
	}
	if r.Code != "" {
		return outcome{}, &subjects.Error{Code: subjects.Code(r.Code), Message: r.Text}
	}
	o := outcome{reply: newReply(), added: r.Added, size: int(r.Size), held: int(r.Held), reads: make(map[int]uint64)}
	o.reply.omitted = int(r.Omitted)
	for _, p := range r.Parts {
		o.reply.add(int(p.Shard), func(b []byte) []byte { return append(b, p.Data...) })
		o.reads[int(p.Shard)] = p.Position
	}
	if r.View != nil {
		v, err := checkView(r.View)
		if err != nil {
			return outcome{}, err
		}
		o.view = &v
	}
	return o, nil
}

func refused(e *subjects.Error) *wire.PeerReply {
	return &wire.PeerReply{Code: string(e.Code), Text: e.Message}
}

// respond answers a peer, in its inbox. If the server would not carry the pieces, it is told
// how large they are.
func (f *Fanout) respond(m *nats.Msg, r *wire.PeerReply) {
	if !strings.HasPrefix(m.Reply, nats.InboxPrefix) {
		f.metrics.malformed.Inc()
		return
	}
	data, err := subjects.Encode(r)
	if err == nil && len(data) > int(f.nc.MaxPayload()) {
		for _, p := range r.Parts {
			r.Omitted += uint64(len(p.Data))
			p.Data = nil
		}
		if r.Omitted == 0 { // a survey that names more targets than fit
			r = refused(tooLarge(len(data), int(f.nc.MaxPayload())))
		}
		data, err = subjects.Encode(r)
	}
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		f.cfg.Logger.Warn("peer not answered", "err", err)
	}
}
