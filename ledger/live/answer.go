package live

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// answer answers requests for figures, one after the other; they ask for the same. A
// ledger that stands by answers too: that it has no shards.
func (l *Ledger) answer(ctx context.Context) error {
	requests := make(chan *nats.Msg, 64)
	subscription, err := l.nc.ChanSubscribe(l.fabric.Stats(), requests)
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	defer subscription.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-requests:
			if err := l.reply(ctx, m); err != nil {
				l.cfg.Logger.Warn("answering a request for figures", "err", err)
			}
		}
	}
}

// reply answers into inboxes only: whoever asks names the subject.
func (l *Ledger) reply(ctx context.Context, m *nats.Msg) error {
	if !strings.HasPrefix(m.Reply, nats.InboxPrefix) {
		return fmt.Errorf("no inbox: %q", m.Reply)
	}
	b, err := json.Marshal(l.Stats(ctx))
	if err != nil {
		return err
	}
	return m.Respond(b)
}
