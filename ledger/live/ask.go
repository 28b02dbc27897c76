package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
)

// ErrNobody says that no ledger answered.
var ErrNobody = errors.New("live: no ledger answers")

// gather is how long further ledgers may take to answer after the first.
const gather = time.Second

// Ask asks the ledgers of a fabric for their figures, as a backend or operator, and adds
// them up. Shards whose ledger does not answer in time are missing. Whoever knows no
// deadline waits for the first answer without end.
func Ask(ctx context.Context, nc *nats.Conn, prefix string) (sum subjects.Stats, err error) {
	names, err := subjects.New(prefix, 1)
	if err != nil {
		return sum, err
	}
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return sum, fmt.Errorf("live: %w", err)
	}
	defer answers.Unsubscribe()
	if err := nc.PublishRequest(names.Stats(), inbox, nil); err != nil {
		return sum, fmt.Errorf("live: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for heard := false; ; {
		m, err := answers.NextMsgWithContext(ctx)
		switch {
		case err != nil && heard && context.Cause(ctx) == errGathered:
			return sum, nil
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return sum, ErrNobody
		case err != nil:
			return sum, fmt.Errorf("live: %w", err)
		}
		stats, err := subjects.DecodeStats(m.Data)
		if err != nil {
			return sum, err
		}
		if !heard {
			heard, sum = true, stats
			defer time.AfterFunc(gather, func() { cancel(errGathered) }).Stop()
		} else if merged, err := subjects.MergeStats(sum, stats); err == nil {
			sum = merged // a ledger that has just been overtaken has the shards of another
		}
		if len(sum.Shards) > 0 && len(sum.Shards) == sum.ShardsTotal {
			return sum, nil
		}
	}
}

var errGathered = errors.New("live: whoever answers has answered")
