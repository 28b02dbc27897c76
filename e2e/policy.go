package e2e

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Clerk changes users' policies, as an application's backend does.
type Clerk struct {
	f        *Fabric
	policies *viewer.Policies
}

// Clerk hires one.
func (f *Fabric) Clerk() *Clerk {
	f.T.Helper()
	policies, err := viewer.NewPolicies(lab.Connect(f.T, f.Server.NewLink()), "")
	if err != nil {
		f.T.Fatal(err)
	}
	return &Clerk{f, policies}
}

// Do carries out an operation and waits for its answer.
func (c *Clerk) Do(op subjects.PolicyOp, user string, r subjects.PolicyRequest) subjects.Policy {
	c.f.T.Helper()
	p, err := c.policies.Do(c.f.ctx, op, user, r)
	if err != nil {
		c.f.T.Fatalf("%s of %s: %v", op, user, err)
	}
	return p
}

// AskFor sends a request and returns what comes back, answer or refusal, byte by byte,
// and after how long.
func (r *Raw) AskFor(op subjects.Op, body []byte) string {
	r.f.T.Helper()
	begun := time.Now()
	m, err := r.nc.Request(r.f.Names.Request(op, r.viewer), body, 10*time.Second)
	if err != nil {
		r.f.T.Fatalf("%s: %v", op, err)
	}
	return fmt.Sprintf("%s after %s: %s %s %s", op, time.Since(begun), m.Header.Get(micro.ErrorCodeHeader), m.Header.Get(micro.ErrorHeader), m.Data)
}
