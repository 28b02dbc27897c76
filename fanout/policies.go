package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// policyAttempts is how often a change is tried again that another one overtook.
const policyAttempts = 10

// performPolicy carries out an operation on a user's policy. Its answer comes when the
// change is stored and what this fanout tells follows it.
func (f *Fanout) performPolicy(ctx context.Context, op subjects.PolicyOp, user string, body []byte) ([]byte, error) {
	request, err := subjects.DecodePolicyRequest(op, body)
	if err != nil {
		return nil, err
	}
	home, err := f.shardOf(user)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	data, err := f.amend(ctx, home, op, user, request)
	if err != nil {
		return nil, asRefusal(err)
	}
	return data, nil
}

// answerTo is the document that answers an operation. What the server would not carry
// is not stored either: nobody could read it.
func (f *Fanout) answerTo(user string, d dossier) ([]byte, error) {
	data, err := json.Marshal(d.document(user, rollcall.MicrosOf(time.Now())))
	if limit := int(f.nc.MaxPayload()); err == nil && len(data) > limit {
		err = subjects.Errorf(subjects.CodeTooLarge, "the policy takes %d bytes, the limit is %d", len(data), limit)
	}
	return data, err
}

func (f *Fanout) shardOf(user string) (*shard, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sh := f.shards[f.fabric.Shard(user)]; sh != nil {
		return sh, nil
	}
	return nil, unavailable()
}

// asRefusal turns a failure of the store into a refusal.
func asRefusal(err error) error {
	if errors.As(err, new(*subjects.Error)) {
		return err
	}
	if errors.Is(err, subjects.ErrMalformed) {
		return fmt.Errorf("%w (%w)", subjects.Errorf(subjects.CodeInternal, "what is stored of the policy is damaged; forget begins anew"), err)
	}
	return fmt.Errorf("%w (%w)", subjects.Errorf(subjects.CodeUnavailable, "the policy could not be stored, try again"), err)
}

// amend reads, changes and writes what is stored of a user's policy, until nobody
// else changed it meanwhile. It returns the answer when this fanout knows of it.
func (f *Fanout) amend(ctx context.Context, home *shard, op subjects.PolicyOp, user string, r subjects.PolicyRequest) ([]byte, error) {
	cabinet := f.cabinet(home.grant.Shard)
	for range policyAttempts {
		old, revision, err := cabinet.policy(ctx, user)
		damaged := errors.Is(err, subjects.ErrMalformed)
		if err != nil && !(damaged && op == subjects.PolicyForget) {
			return nil, err
		}
		groups, _, err := cabinet.groups(ctx, user)
		if err != nil && !(errors.Is(err, subjects.ErrMalformed) && op == subjects.PolicyForget) {
			return nil, err
		}
		file := dossier{old, groups}
		if op == subjects.PolicyGet {
			return f.answerTo(user, file)
		}
		changed, err := file.amend(op, r, home.viewOf(user), rollcall.MicrosOf(time.Now()))
		if err != nil {
			return nil, err
		}
		answer, err := f.answerTo(user, changed)
		if err != nil {
			return nil, err
		}
		if damaged || !proto.Equal(orEmpty(old), orEmpty(changed.policy)) {
			err = f.put(ctx, cabinet, subjects.KeyPolicy(user), messageOf(changed.policy), revision)
		}
		if err == nil && (op == subjects.PolicyJoin || op == subjects.PolicyLeave || op == subjects.PolicyForget) {
			err = f.putGroups(ctx, user, changed.groups)
		}
		if !overtaken(err) {
			return answer, err
		}
	}
	return nil, errors.New("fanout: overtaken by other changes again and again")
}

// putGroups writes the groups of a user to every shard, because those of a viewer
// count where its targets live. Repeating an operation repairs one that failed
// half-way.
func (f *Fanout) putGroups(ctx context.Context, user string, groups []string) error {
	writing, ctx := errgroup.WithContext(ctx)
	for n := range f.fabric.Shards() {
		writing.Go(func() error { return f.putGroupsIn(ctx, f.cabinet(n), user, groups) })
	}
	return writing.Wait()
}

func (f *Fanout) putGroupsIn(ctx context.Context, c cabinet, user string, groups []string) error {
	found, revision, err := c.groups(ctx, user)
	damaged := errors.Is(err, subjects.ErrMalformed)
	switch {
	case err != nil && !damaged:
		return err
	case !damaged && slices.Equal(found, groups):
		return nil
	case len(groups) == 0:
		return f.put(ctx, c, subjects.KeyGroups(user), nil, revision)
	}
	return f.put(ctx, c, subjects.KeyGroups(user), &wire.Groups{Groups: groups}, revision)
}

// put writes a record, nil to end it, and waits until this fanout has read it, if
// the shard is its own.
func (f *Fanout) put(ctx context.Context, c cabinet, key string, record proto.Message, revision uint64) error {
	f.mu.Lock()
	sh := f.shards[c.shard]
	f.mu.Unlock()
	if sh == nil {
		_, err := c.put(ctx, key, record, revision)
		return err
	}
	reader := sh.reader.Load()
	read := reader.Position()
	written, err := c.put(ctx, key, record, revision)
	if err != nil {
		return err
	}
	if written <= read {
		// The store has lost what was read, and this record has taken its place, so
		// that the reader would not see it.
		reader.Lost()
	}
	sh.await(ctx, written)
	return nil
}

// await waits until the shard has read its bucket up to a revision. What is stored
// stays stored if ctx ends before.
func (sh *shard) await(ctx context.Context, revision uint64) {
	for {
		sh.mu.Lock()
		reached, progress := sh.board.health.reached, sh.progress
		sh.mu.Unlock()
		if reached >= revision {
			return
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return
		}
	}
}

// viewOf is what is known of a user, nil for nothing.
func (sh *shard) viewOf(user string) *View {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.board.known.subject(user).view
}

// messageOf keeps a missing policy from becoming an interface that is not nil.
func messageOf(p *wire.Policy) proto.Message {
	if p == nil {
		return nil
	}
	return p
}

func orEmpty(p *wire.Policy) *wire.Policy {
	if p == nil {
		return new(wire.Policy)
	}
	return p
}
