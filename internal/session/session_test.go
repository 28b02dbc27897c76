package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/session"
)

func TestAClosedConnectionEndsTheContext(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		nc := lab.Connect(t, lab.NewServer(t).NewLink())
		ctx, cancel := session.Context(t.Context(), nc)
		defer cancel()
		nc.Close()
		<-ctx.Done()
		if err := session.Reason(ctx, ctx.Err()); !errors.Is(err, rollcall.ErrDisconnected) {
			t.Errorf("ended with %v", err)
		}
		again, cancel := session.Context(t.Context(), nc)
		defer cancel()
		<-again.Done()
		if err := session.Reason(again, again.Err()); !errors.Is(err, rollcall.ErrDisconnected) {
			t.Errorf("on a connection that was closed before, ended with %v", err)
		}
	})
}

func TestALostConnectionDoesNot(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		link := lab.NewServer(t).NewLink()
		nc := lab.Connect(t, link)
		ctx, cancel := session.Context(t.Context(), nc)
		link.Cut()
		link.Heal()
		if err := nc.Flush(); err == nil && ctx.Err() != nil {
			t.Error("a reconnect ended the context")
		}
		cancel()
		if err := session.Reason(ctx, ctx.Err()); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
