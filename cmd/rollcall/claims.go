package main

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// settleClaims has the server give every role its rights in a fabric of these names. It
// tells it only what is new: a signing key that changes ends the connections of its
// role. nc is of the system account.
func settleClaims(ctx context.Context, nc *nats.Conn, authority *identity.Authority, names subjects.Names, dryRun bool) ([]identity.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	previous, err := natsd.LookupClaims(ctx, nc, authority.Account())
	if err != nil {
		return nil, err
	}
	claims, changes := authority.Claims(names, previous)
	if dryRun || !anyNew(changes) {
		return changes, nil
	}
	token, err := authority.Sign(claims)
	if err != nil {
		return nil, err
	}
	return changes, natsd.PushClaims(ctx, nc, token)
}

func anyNew(changes []identity.Change) bool {
	for _, c := range changes {
		if c.Done != identity.Kept {
			return true
		}
	}
	return false
}
