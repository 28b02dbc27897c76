package fanout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A run is one board with everything around it, in virtual time: what the bucket
// holds, the keeper's pulses, an application that decides, and all that each viewer
// receives. Timers fire at their instants, as those of a shard do.
type run struct {
	b     *board
	cfg   boardConfig
	now   time.Time
	truth *records

	keeper   uint64 // generation of the keeper
	revision uint64 // records in the bucket
	pulseAt  time.Time
	silent   bool // no pulses
	lagging  bool // pulses announce what never comes

	says  map[string]verdicts // of the application, by viewer
	mute  map[string]bool     // viewers for whom it does not answer
	asked []asking            // questions under way, oldest first

	maxTargets int
	heard      map[string][]heard
}

// An asking is a question on its way to the application and back.
type asking struct {
	at time.Time
	question
}

// Heard is one thing that a viewer received.
type heard struct {
	at   time.Time
	data string
}

const (
	pulseEvery  = 5 * time.Second
	askingTakes = 30 * time.Millisecond
)

func newRun(cfg boardConfig, now time.Time) *run {
	r := &run{
		cfg: cfg, now: now, truth: newRecords(), keeper: 1, revision: 1, pulseAt: now, maxTargets: subjects.MaxTargets,
		says: make(map[string]verdicts), mute: make(map[string]bool), heard: make(map[string][]heard),
	}
	r.begin()
	return r
}

// begin makes a board that has read the bucket.
func (r *run) begin() {
	r.b = newBoard(r.cfg, r.now)
	r.read()
	r.b.reach(r.revision, r.now)
	r.b.loaded(r.now)
}

// read hands the board everything that the bucket holds.
func (r *run) read() {
	for _, user := range slices.Sorted(maps.Keys(r.truth.views)) {
		v := r.truth.views[user]
		r.b.apply(viewOf(user, &v), r.now)
	}
	for _, user := range slices.Sorted(maps.Keys(r.truth.policies)) {
		p := r.truth.policies[user]
		r.b.apply(change{user: user, kind: subjects.KindPolicy, policy: &p}, r.now)
	}
	for _, user := range slices.Sorted(maps.Keys(r.truth.groups)) {
		g := r.truth.groups[user]
		r.b.apply(change{user: user, kind: subjects.KindGroups, groups: &g}, r.now)
	}
}

// advance lets time pass.
func (r *run) advance(to time.Time) {
	every := max(pulseEvery, r.cfg.outage/3)
	for {
		at := to
		next := r.flush()
		if !r.silent && r.pulseAt.Before(r.now) {
			r.pulseAt = r.now
		}
		if !next.IsZero() && next.Before(at) {
			at = next
		}
		if !r.silent && r.pulseAt.Before(at) {
			at = r.pulseAt
		}
		if len(r.asked) > 0 && r.asked[0].at.Before(at) {
			at = r.asked[0].at
		}
		r.now = at
		if !r.silent && !r.pulseAt.After(r.now) {
			announced := r.revision
			if r.lagging {
				announced += 1000
			}
			r.b.pulse(r.keeper, announced, r.now)
			r.pulseAt = r.now.Add(every)
		}
		for len(r.asked) > 0 && !r.asked[0].at.After(r.now) {
			q := r.asked[0]
			r.asked = r.asked[1:]
			r.b.answered(q.viewer, r.verdicts(q.viewer, q.targets), r.now)
		}
		if !at.Before(to) {
			r.flush()
			return
		}
	}
}

// flush publishes what is due now and returns when to come back.
func (r *run) flush() time.Time {
	for {
		messages, next := r.b.flush(r.now, batch)
		for _, m := range messages {
			r.hear(m.viewer, string(m.data))
		}
		for _, q := range r.b.questions {
			r.asked = append(r.asked, asking{r.now.Add(askingTakes), q})
		}
		r.b.questions = nil
		if next.IsZero() || next.After(r.now) {
			return next
		}
	}
}

func (r *run) hear(viewer, data string) {
	r.heard[viewer] = append(r.heard[viewer], heard{r.now, data})
}

func (r *run) verdicts(viewer string, targets []string) verdicts {
	if !r.cfg.asks {
		return nil
	}
	said := make(verdicts)
	for _, t := range targets {
		said[t] = r.says[viewer][t]
		if r.mute[viewer] {
			said[t] = wire.Granularity_GRANULARITY_UNSPECIFIED
		} else if said[t] == wire.Granularity_GRANULARITY_UNSPECIFIED {
			said[t] = wire.Granularity_GRANULARITY_EXACT
		}
	}
	return said
}

// decide makes the application say something else from now on.
func (r *run) decide(viewer, target string, g wire.Granularity) {
	if r.says[viewer] == nil {
		r.says[viewer] = make(verdicts)
	}
	r.says[viewer][target] = g
	r.b.doubt(viewer, target, r.now)
}

// write stores a record.
func (r *run) write(c change) {
	r.revision++
	r.truth.apply(c)
	r.b.apply(c, r.now)
	r.b.reach(r.revision, r.now)
}

func (r *run) set(user string, v *View) { r.write(viewOf(user, v)) }

func (r *run) view(user string) *View { return r.truth.subject(user).view }

// dossier is what is stored of a user's policy.
func (r *run) dossier(user string) dossier {
	d := dossier{groups: r.truth.groups[user]}
	if data, exists := r.truth.policies[user]; exists {
		w, err := decodePolicy(data)
		if err != nil {
			panic(err)
		}
		d.policy = w
	}
	return d
}

// amended is what an operation would leave.
func (r *run) amended(op subjects.PolicyOp, user string, request subjects.PolicyRequest) (dossier, error) {
	return r.dossier(user).amend(op, request, r.view(user), rollcall.MicrosOf(r.now))
}

// file stores a dossier, as the service does: what has not changed is not written.
func (r *run) file(user string, d dossier) {
	policy := change{user: user, kind: subjects.KindPolicy}
	if d.policy != nil {
		data, err := subjects.Encode(d.policy)
		if err != nil {
			panic(err)
		}
		policy.policy = &data
	}
	if old, exists := r.truth.policies[user]; exists != (policy.policy != nil) || exists && string(old) != string(*policy.policy) {
		r.write(policy)
	}
	if !slices.Equal(r.truth.groups[user], d.groups) {
		groups := change{user: user, kind: subjects.KindGroups}
		if len(d.groups) > 0 {
			groups.groups = &d.groups
		}
		r.write(groups)
	}
}

// answer completes an answer, or refuses it as the service does.
func (r *run) answer(viewer string, op subjects.Op, appendTo func([]byte) ([]byte, bool)) bool {
	reply := newReply()
	reply.addKnown(r.cfg.shard, appendTo)
	data, err := reply.end(r.cfg.maxPayload)
	if err != nil {
		r.hear(viewer, fmt.Sprintf("%s: %v", op, err))
		return false
	}
	r.hear(viewer, fmt.Sprintf("%s: %s", op, data))
	return true
}

// subscribe is a request in two steps, because the store takes its time between
// them; the second is nil if the first refused.
func (r *run) subscribe(viewer string, targets []string) (stored func()) {
	said := r.verdicts(viewer, targets)
	p := r.b.plan(viewer, targets, r.now)
	if size := r.b.size(viewer, targets, said, r.now); size > r.cfg.maxPayload {
		r.hear(viewer, tooLarge(size, r.cfg.maxPayload).Error())
		return nil
	}
	if total := r.b.positionOf(viewer, r.now).Targets + len(p.place); len(p.place) > 0 && total > r.maxTargets {
		r.hear(viewer, fmt.Sprintf("%s: %d in all", subjects.CodeTooManyTargets, total))
		return nil
	}
	return func() {
		ok := r.answer(viewer, subjects.OpSubscribe, func(data []byte) ([]byte, bool) {
			return r.b.subscribe(data, viewer, p, said, r.now), true
		})
		if !ok {
			r.b.unsubscribe(viewer, slices.Collect(maps.Keys(p.place)), false, r.now)
		}
	}
}

func (r *run) request(viewer string, op subjects.Op, targets []string) {
	r.answer(viewer, op, func(data []byte) ([]byte, bool) {
		switch op {
		case subjects.OpGet:
			return r.b.get(data, viewer, targets, r.verdicts(viewer, targets), r.now), true
		case subjects.OpUnsubscribe:
			r.b.unsubscribe(viewer, targets, len(targets) == 0, r.now)
			return r.b.stand(data, viewer, r.now), true
		default:
			out, _, known := r.b.refresh(data, viewer, r.now)
			return out, known
		}
	})
}

// takeOver replaces the owner of the shard. What was on its way to the old one is lost.
func (r *run) takeOver() {
	old := r.b
	r.cfg.generation = rollcall.NextGeneration(r.cfg.generation, r.now)
	r.asked = nil
	r.begin()
	for _, viewer := range slices.Sorted(maps.Keys(old.streams)) {
		parts := make(map[int][]string)
		for id, w := range old.streams[viewer].watches {
			parts[int(w.part)] = append(parts[int(w.part)], id)
		}
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			slices.Sort(parts[n])
			r.b.restore(viewer, n, parts[n], r.now, r.now)
		}
	}
	r.b.announceAll(r.now)
}

// reload begins to read the bucket anew, as after the store has lost a tail.
func (r *run) reload() {
	r.b.reload()
	r.read()
	r.b.reach(r.revision, r.now)
}

func (r *run) loaded() {
	if r.b.loading != nil {
		r.b.loaded(r.now)
	}
}

// differences of what a viewer received in two runs; empty if there are none.
func differences(a, b []heard) string {
	if slices.Equal(a, b) {
		return ""
	}
	var lines strings.Builder
	for i := range max(len(a), len(b)) {
		for side, all := range [][]heard{a, b} {
			if i < len(all) {
				fmt.Fprintf(&lines, "\n%c %s %s", 'A'+side, all[i].at.Format("2 15:04:05.000000000"), all[i].data)
			}
		}
	}
	return lines.String()
}
