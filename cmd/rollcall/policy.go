package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type policyCmd struct {
	Get       policyGetCmd    `cmd:"" help:"Show the policy of a user."`
	Set       policySetCmd    `cmd:"" help:"Say how much may be known by relation."`
	Allow     policyAllowCmd  `cmd:"" help:"Say how much single viewers may know, whatever their relation."`
	Reset     policyUsersCmd  `cmd:"" help:"Take allow back: the relation counts again."`
	Block     policyUsersCmd  `cmd:"" help:"Let viewers see nothing, as if the user did not exist."`
	Unblock   policyUsersCmd  `cmd:"" help:"Take block back."`
	Contact   policyUsersCmd  `cmd:"" help:"Add contacts."`
	Uncontact policyUsersCmd  `cmd:"" help:"Remove contacts."`
	Status    policyStatusCmd `cmd:"" help:"Say what the user says of itself: away, dnd, invisible, a text."`
	Clear     policyClearCmd  `cmd:"" help:"End what the user says of itself."`
	Join      policyGroupsCmd `cmd:"" help:"Put a user into groups: their members see each other as members."`
	Leave     policyGroupsCmd `cmd:"" help:"Take a user out of groups."`
	Forget    policyGetCmd    `cmd:"" help:"Put everything back to the default."`
}

func (policyCmd) Help() string {
	return `Every change takes effect at once on whoever watches, and prints the policy as it is afterwards. How much may be known is one of
exact (status, activity, last seen to the minute), coarse (online, recently, long ago), hidden (that the user exists) and absent.`
}

// amending is what every command on a policy needs.
type amending struct {
	User string `arg:"" help:"The user whose policy it is."`
	JSON bool   `help:"Print JSON."`
	remote
}

// do carries out the operation that the command is named after.
func (a amending) do(ctx context.Context, std console, op subjects.PolicyOp, r subjects.PolicyRequest) error {
	nc, err := a.connectAs(std, "policy", a.party(op))
	if err != nil {
		return err
	}
	defer nc.Close()
	policies, err := viewer.NewPolicies(nc, a.Prefix)
	if err != nil {
		return fmt.Errorf("%w: --prefix: %w", errUsage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	p, err := policies.Do(ctx, op, a.User, r)
	var refusal *subjects.Error
	switch {
	case errors.As(err, &refusal):
		return fmt.Errorf("%w: %s", errUsage, refusal.Message)
	case err != nil:
		return noAnswer(err, a.Prefix)
	case a.JSON:
		return json.NewEncoder(std.out).Encode(p)
	}
	return printPolicy(std, p)
}

// party may carry out the operation: a backend, or the user if it is one of users.
func (a amending) party(op subjects.PolicyOp) party {
	p := party{role: identity.Backend, ids: []string{"rollcall-policy"}, anyName: true, does: fmt.Sprintf("change the policy of %s by %s", a.User, op)}
	if op == subjects.PolicyGet {
		p.does = "read the policy of " + a.User
	}
	if slices.Contains(subjects.UserPolicyOps[:], op) {
		p.or = &party{role: identity.Viewer, ids: []string{a.User}}
	}
	return p
}

func printPolicy(std console, p subjects.Policy) error {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(table, "%s\t%s\n", name, value)
	}
	relation := func(g *rollcall.Granularity) string {
		if g == nil {
			return "default"
		}
		return g.String()
	}
	row("user", p.User)
	row("contacts may know", relation(p.Contact))
	row("members may know", relation(p.Member))
	row("everyone may know", relation(p.Everyone))
	row("contacts", strings.Join(p.Contacts, ", "))
	row("groups", strings.Join(p.Groups, ", "))
	row("blocked", strings.Join(p.Blocks, ", "))
	var overrides []string
	for _, v := range slices.Sorted(maps.Keys(p.Overrides)) {
		overrides = append(overrides, v+" "+p.Overrides[v].String())
	}
	row("allowed", strings.Join(overrides, ", "))
	var statuses []string
	for _, s := range p.Statuses {
		words := []string{s.Availability.String()}
		if s.Text != "" {
			words = append(words, fmt.Sprintf("%q", s.Text))
		}
		if !s.Until.IsZero() {
			words = append(words, "until "+s.Until.Local().Format(timeLayout))
		}
		if s.Priority != 0 {
			words = append(words, fmt.Sprintf("(priority %d)", s.Priority))
		}
		statuses = append(statuses, strings.Join(words, " "))
	}
	row("says", strings.Join(statuses, ", "))
	return table.Flush()
}

type policyGetCmd struct{ amending }

func (c *policyGetCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	return c.do(ctx, std, op, subjects.PolicyRequest{})
}

type policyUsersCmd struct {
	amending
	Others []string `arg:"" name:"other" help:"The users it is about."`
}

func (c *policyUsersCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	return c.do(ctx, std, op, subjects.PolicyRequest{Users: c.Others})
}

type policyGroupsCmd struct {
	amending
	Groups []string `arg:"" name:"group" help:"The groups."`
}

func (c *policyGroupsCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	return c.do(ctx, std, op, subjects.PolicyRequest{Groups: c.Groups})
}

type policyAllowCmd struct {
	amending
	Others []string             `arg:"" name:"viewer" help:"The viewers."`
	To     rollcall.Granularity `required:"" placeholder:"GRANULARITY" help:"How much they may know: exact, coarse, hidden or absent."`
}

func (c *policyAllowCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	return c.do(ctx, std, op, subjects.PolicyRequest{Users: c.Others, Granularity: &c.To})
}

// A choice is a granularity, or the fabric's default.
type choice struct{ *rollcall.Granularity }

func (c *choice) UnmarshalText(name []byte) error {
	if string(name) == "default" {
		return nil
	}
	c.Granularity = new(rollcall.Granularity)
	return c.Granularity.UnmarshalText(name)
}

type policySetCmd struct {
	amending
	Contact  *choice `placeholder:"GRANULARITY" help:"How much contacts may know; 'default' for the fabric's default."`
	Member   *choice `placeholder:"GRANULARITY" help:"How much those may know who share a group."`
	Everyone *choice `placeholder:"GRANULARITY" help:"How much all others may know."`
}

func (c *policySetCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	var r subjects.PolicyRequest
	for _, relation := range []struct {
		name string
		from *choice
		to   **rollcall.Granularity
	}{
		{subjects.RelationContact, c.Contact, &r.Contact}, {subjects.RelationMember, c.Member, &r.Member},
		{subjects.RelationEveryone, c.Everyone, &r.Everyone},
	} {
		switch {
		case relation.from == nil:
		case relation.from.Granularity == nil:
			r.Default = append(r.Default, relation.name)
		default:
			*relation.to = relation.from.Granularity
		}
	}
	return c.do(ctx, std, op, r)
}

type policyStatusCmd struct {
	amending
	Availability rollcall.Availability `arg:"" help:"available, away, dnd or invisible."`
	Text         string                `help:"A short text beside it."`
	Priority     int                   `help:"Of several the highest counts; the one of the same priority is replaced."`
	For          time.Duration         `xor:"end" placeholder:"DURATION" help:"End after this time."`
	Until        time.Time             `xor:"end" placeholder:"TIME" help:"End at this instant, such as 2026-12-24T18:00:00Z."`
}

func (c *policyStatusCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	s := &subjects.ManualStatus{Availability: c.Availability, Text: c.Text, Priority: c.Priority, Until: c.Until}
	if c.For < 0 {
		return fmt.Errorf("%w: --for %s must be above zero", errUsage, c.For)
	}
	if c.For > 0 {
		s.Until = time.Now().Add(c.For).UTC()
	}
	return c.do(ctx, std, op, subjects.PolicyRequest{Status: s})
}

type policyClearCmd struct {
	amending
	Priority *int `help:"Only the one of this priority (default: all)."`
}

func (c *policyClearCmd) Run(ctx context.Context, std console, op subjects.PolicyOp) error {
	return c.do(ctx, std, op, subjects.PolicyRequest{Priority: c.Priority})
}
