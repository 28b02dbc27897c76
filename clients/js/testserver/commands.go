package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A command has a number of arguments and what it does with them.
type command struct {
	least, most int
	do          func(s *stage, ctx context.Context, args []string) error
}

var commands = map[string]command{
	"connect": {2, 2, func(s *stage, _ context.Context, a []string) error { return s.devices.connect(s.edge, a[0], a[1]) }},
	"close":   {2, 2, func(s *stage, _ context.Context, a []string) error { return s.devices.close(a[0], a[1]) }},
	"state":   {3, 3, func(s *stage, _ context.Context, a []string) error { return s.devices.setState(a[0], a[1], a[2]) }},
	"status":  {2, 3, func(s *stage, ctx context.Context, a []string) error { return s.setStatus(ctx, a[0], a[1], a[2:]) }},
	"block": {2, 2, func(s *stage, ctx context.Context, a []string) error {
		return s.amend(ctx, subjects.PolicyBlock, a[0], subjects.PolicyRequest{Users: a[1:]})
	}},
	"unblock": {2, 2, func(s *stage, ctx context.Context, a []string) error {
		return s.amend(ctx, subjects.PolicyUnblock, a[0], subjects.PolicyRequest{Users: a[1:]})
	}},
	"start": {1, 1, func(s *stage, ctx context.Context, a []string) error { return s.switchPart(ctx, a[0], true) }},
	"stop":  {1, 1, func(s *stage, ctx context.Context, a []string) error { return s.switchPart(ctx, a[0], false) }},
}

// obey carries out a line.
func (s *stage) obey(ctx context.Context, line string) (any, error) {
	words := strings.Fields(line)
	for i, w := range words {
		var err error
		if words[i], err = url.PathUnescape(w); err != nil {
			return nil, err
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("no command")
	}
	if words[0] == "token" && len(words) > 3 {
		return s.token(words[1], identity.Role(words[2]), words[3:])
	}
	if words[0] == "bearer" && len(words) == 3 {
		return s.bearer(words[1], words[2])
	}
	if words[0] == "count" && len(words) == 2 {
		return s.count(words[1])
	}
	c, known := commands[words[0]]
	if args := len(words) - 1; !known || args < c.least || args > c.most {
		return nil, fmt.Errorf("no command %q with %d arguments", words[0], args)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return true, c.do(s, ctx, words[1:])
}

// token mints a credential, in both forms in which clients take it.
func (s *stage) token(ttl string, role identity.Role, ids []string) (any, error) {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return nil, err
	}
	credential, err := s.server.issuer.Mint(role, d, ids...)
	if err != nil {
		return nil, err
	}
	file, err := credential.File()
	return map[string]any{"parts": credential, "file": string(file)}, err
}

// switchPart starts or stops a part. What is started runs longer than the command.
func (s *stage) switchPart(ctx context.Context, name string, on bool) error {
	if name == "server" {
		if on {
			return s.server.start()
		}
		s.server.stop()
		return nil
	}
	p := map[string]*part{"keeper": s.keeper, "fanout": s.fanout, "gateway": s.gateway}[name]
	switch {
	case p == nil:
		return fmt.Errorf("no part %q", name)
	case on:
		p.start(context.WithoutCancel(ctx))
	default:
		p.end()
	}
	return nil
}

func (s *stage) setStatus(ctx context.Context, user, availability string, text []string) error {
	status := subjects.ManualStatus{Text: strings.Join(text, " ")}
	if err := status.Availability.UnmarshalText([]byte(availability)); err != nil {
		return err
	}
	if status.Availability == rollcall.Available && status.Text == "" {
		return s.amend(ctx, subjects.PolicyClear, user, subjects.PolicyRequest{Priority: &status.Priority})
	}
	return s.amend(ctx, subjects.PolicyStatus, user, subjects.PolicyRequest{Status: &status})
}

func (s *stage) amend(ctx context.Context, op subjects.PolicyOp, user string, r subjects.PolicyRequest) error {
	_, err := s.policies.Do(ctx, op, user, r)
	return err
}

// stateOf is what a device says of itself to be shown so.
func stateOf(name string) (edge.State, error) {
	state, err := rollcall.ParseState(name)
	if err != nil || state == rollcall.Offline {
		return edge.State{}, fmt.Errorf("no state %q of a device", name)
	}
	return edge.State{Foreground: state >= rollcall.Idle, Active: state == rollcall.Active}, nil
}
