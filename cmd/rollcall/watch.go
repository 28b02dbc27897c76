package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// seeing is what every command needs that looks through a viewer's eyes.
type seeing struct {
	remote
	JSON bool `help:"Print JSON, one object a line."`
}

// see runs a client for the viewer while f runs.
func (s seeing) see(ctx context.Context, std console, name string, f func(context.Context, *viewer.Client) error) error {
	if err := rollcall.CheckID(name); err != nil {
		return fmt.Errorf("%w: --viewer: %w", errUsage, err)
	}
	nc, err := s.connectAs(std, "viewer", party{role: identity.Viewer, ids: []string{name}, does: "look as the viewer " + name})
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := viewer.New(nc, viewer.Config{Viewer: name, Prefix: s.Prefix})
	if err != nil {
		return fmt.Errorf("%w: --viewer or --prefix: %w", errUsage, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	running := make(chan error, 1)
	go func() { running <- client.Run(ctx) }()
	err = f(ctx, client)
	cancel()
	if ended := <-running; err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	return severed(nc, err)
}

// answerTimeout is how long a command waits for a fabric before it says that
// there is none.
const answerTimeout = 10 * time.Second

func noAnswer(err error, prefix string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no fanout answers for the fabric %q; is `rollcall up` running there, with this prefix?", prefix)
	}
	return err
}

// shown is one line of output.
type shown struct {
	At       time.Time       `json:"at"`
	Target   string          `json:"target"`
	Status   rollcall.Status `json:"status"`
	State    string          `json:"state,omitempty"`
	Activity string          `json:"activity,omitempty"`
	// Availability and Text are what the target says of itself.
	Availability string     `json:"availability,omitempty"`
	Text         string     `json:"text,omitempty"`
	LastSeen     *time.Time `json:"last_seen_minute,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	Version      uint64     `json:"version,omitempty"`
}

func show(at time.Time, target string, s viewer.State) shown {
	line := shown{
		At: at.UTC(), Target: target, Status: s.View.Status, State: s.View.State, Activity: s.View.Activity,
		Availability: s.View.Availability, Text: s.View.Text, Reason: s.Reason, Version: s.View.Version,
	}
	if s.Withdrawn() {
		line.Status = "not visible"
	}
	if !s.View.LastSeenMinute.IsZero() {
		at := s.View.LastSeenMinute.Time()
		line.LastSeen = &at
	}
	return line
}

// text describes a state in a few words.
func (s shown) text() string {
	words := []string{string(s.Status)}
	if s.State != "" && s.State != string(s.Status) {
		words = append(words, s.State)
	}
	if s.Activity != "" {
		words = append(words, fmt.Sprintf("(%s)", s.Activity))
	}
	if s.Availability != "" {
		words = append(words, s.Availability)
	}
	if s.Text != "" {
		words = append(words, fmt.Sprintf("%q", s.Text))
	}
	if s.LastSeen != nil {
		words = append(words, "last seen "+s.LastSeen.Local().Format("2006-01-02 15:04 MST"))
	}
	if s.Reason != "" {
		words = append(words, "because "+strings.ReplaceAll(s.Reason, "_", " "))
	}
	return strings.Join(words, "  ")
}

type watchCmd struct {
	Viewer  string        `placeholder:"ID" help:"The user who looks (default: the viewer of --creds)."`
	Targets []string      `arg:"" name:"target" help:"Users to look at."`
	For     time.Duration `placeholder:"DURATION" help:"Stop after this time (default: when interrupted)."`
	seeing
}

func (c *watchCmd) Help() string {
	return `Prints the state of each target that is known now, then every change as it comes. A target about whom nothing is printed
was never online, or the viewer may not see it.`
}

func (c *watchCmd) Run(ctx context.Context, std console) error {
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	if c.Viewer = cmp.Or(c.Viewer, nameIn(c.Creds, identity.Viewer)); c.Viewer == "" {
		return fmt.Errorf("%w: --viewer=ID is missing: the user who looks", errUsage)
	}
	outer := ctx
	err := c.see(ctx, std, c.Viewer, func(ctx context.Context, client *viewer.Client) error {
		first, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if err := client.Watch(first, c.Targets...); err != nil {
			return noAnswer(err, c.Prefix)
		}
		if !c.JSON {
			fmt.Fprintf(std.err, "watching as %s: %s; Ctrl-C stops\n", c.Viewer, strings.Join(c.Targets, ", "))
		}
		for change := range client.Changes() {
			if err := c.print(std, show(change.At, change.Target, change.State)); err != nil {
				return err
			}
		}
		return outer.Err()
	})
	if c.For > 0 && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (c *watchCmd) print(std console, line shown) error {
	if c.JSON {
		return json.NewEncoder(std.out).Encode(line)
	}
	_, err := fmt.Fprintf(std.out, "%s  %-20s  %s\n", line.At.Local().Format("15:04:05.000"), line.Target, line.text())
	return err
}

type whoCmd struct {
	Users  []string `arg:"" name:"user" help:"Users to look at."`
	Viewer string   `placeholder:"ID" help:"The user who looks (default: the viewer of --creds, else operator)."`
	seeing
}

func (c *whoCmd) Help() string {
	return `Exit code 0 if all users are known, 1 if one is not: it was never online, or the viewer may not see it.`
}

func (c *whoCmd) Run(ctx context.Context, std console) error {
	viewing := cmp.Or(c.Viewer, nameIn(c.Creds, identity.Viewer), "operator")
	return c.see(ctx, std, viewing, func(ctx context.Context, client *viewer.Client) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		states, err := client.Get(ctx, c.Users...)
		if err != nil {
			return noAnswer(err, c.Prefix)
		}
		return c.print(std, states)
	})
}

func (c *whoCmd) print(std console, states map[string]viewer.State) error {
	var missing []string
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, user := range c.Users {
		state, known := states[user]
		switch {
		case !known:
			missing = append(missing, user)
		case c.JSON:
			if err := json.NewEncoder(std.out).Encode(show(state.Received, user, state)); err != nil {
				return err
			}
		default:
			fmt.Fprintf(table, "%s\t%s\n", user, show(state.Received, user, state).text())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("nothing is known of %s", strings.Join(slices.Compact(missing), ", "))
	}
	return nil
}
