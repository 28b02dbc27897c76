package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// Policies reads and changes who may know what of users: of oneself with the
// identity of a viewer, of everyone with that of a backend. It is safe for
// concurrent use.
type Policies struct {
	nc    *nats.Conn
	names subjects.Names
}

// NewPolicies returns the policies of the fabric with the given prefix, the default
// one if it is empty.
func NewPolicies(nc *nats.Conn, prefix string) (*Policies, error) {
	if prefix == "" {
		prefix = subjects.DefaultPrefix
	}
	names, err := subjects.New(prefix, 1) // the shard of a user does not count here
	if err != nil {
		return nil, err
	}
	return &Policies{nc, names}, nil
}

// Do carries out an operation and returns the policy as it is afterwards; what this
// user's viewers are told follows it from then on. Every operation is idempotent, so Do
// tries again until ctx ends while the fanout is away or has too much to do. A refusal
// is a [*subjects.Error].
func (p *Policies) Do(ctx context.Context, op subjects.PolicyOp, user string, r subjects.PolicyRequest) (subjects.Policy, error) {
	if err := rollcall.CheckID(user); err != nil {
		return subjects.Policy{}, subjects.Errorf(subjects.CodeInvalidID, "user: %v", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return subjects.Policy{}, fmt.Errorf("viewer: %s: %w", op, err)
	}
	for attempt := 0; ; attempt++ {
		policy, err := p.try(ctx, op, user, body)
		if err == nil || refused(err) || errors.Is(err, nats.ErrMaxPayload) || ctx.Err() != nil {
			return policy, err
		}
		if !retry.Pause(ctx, retry.Backoff(attempt, 250*time.Millisecond, 10*time.Second, rand.Int64N)) {
			return subjects.Policy{}, err
		}
	}
}

func (p *Policies) try(ctx context.Context, op subjects.PolicyOp, user string, body []byte) (subjects.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := p.nc.RequestWithContext(ctx, p.names.Policy(op, user), body)
	if err != nil {
		return subjects.Policy{}, fmt.Errorf("viewer: %s: %w", op, err)
	}
	if err := refusalOf(m); err != nil {
		return subjects.Policy{}, err
	}
	return subjects.DecodePolicy(m.Data)
}
