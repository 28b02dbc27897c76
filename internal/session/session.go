// Package session ties the life of a part to that of its NATS connection: one that
// was closed for good never comes back, and a part that waits for it would wait for
// ever, in silence.
package session

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
)

// Context ends with ctx, and with the cause [rollcall.ErrDisconnected] when nc is
// closed for good. Call cancel to free what watches the connection.
func Context(ctx context.Context, nc *nats.Conn) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	closed := nc.StatusChanged(nats.CLOSED)
	go func() {
		defer nc.RemoveStatusListener(closed)
		select {
		case <-bound.Done():
		case <-closed:
			end(rollcall.ErrDisconnected)
		}
	}()
	if nc.IsClosed() {
		end(rollcall.ErrDisconnected)
	}
	return bound, func() { end(context.Canceled) }
}

// Reason is why a part that ran under a bound context ended: that the connection was
// closed, if it was, otherwise err.
func Reason(bound context.Context, err error) error {
	if cause := context.Cause(bound); cause == rollcall.ErrDisconnected {
		return cause
	}
	return err
}
