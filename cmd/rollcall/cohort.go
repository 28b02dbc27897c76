package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type cohortCmd struct {
	Ls     cohortLsCmd     `cmd:"" help:"List worker groups."`
	Show   cohortShowCmd   `cmd:"" help:"Show the members and partitions of a group."`
	Watch  cohortWatchCmd  `cmd:"" help:"Show every change of a group, with its reason."`
	Drain  cohortDrainCmd  `cmd:"" help:"Have a member give away what it has, and get nothing more."`
	Move   cohortMoveCmd   `cmd:"" help:"Move a partition to a member, to stay there."`
	Create cohortCreateCmd `cmd:"" help:"Make a group before its first member joins."`
}

func (cohortCmd) Help() string {
	return `Processes become members of a group with package cohort, or by the protocol in docs/cohort-protocol.md.`
}

// grouping is what every command on groups needs.
type grouping struct {
	JSON   bool   `help:"Print JSON, one object a line."`
	Bucket string `default:"workers" enum:"workers,keeper,fanout,ledger" help:"Where the group lies: workers, or keeper, fanout or ledger for those that share shards out."`
	remote
}

func (g grouping) connect(std console) (*nats.Conn, error) {
	who := party{role: identity.Worker, ids: []string{"rollcall-cohort"}, anyName: true, does: "look after worker groups"}
	if g.Bucket != subjects.WorkersBucket {
		who = party{role: identity.Operator, ids: who.ids, anyName: true, does: "look after the processes of a fabric"}
	}
	return g.connectAs(std, "cohort", who)
}

// open finds a group while f uses it.
func (g grouping) open(ctx context.Context, std console, name string, f func(*cohort.Group) error) error {
	nc, err := g.connect(std)
	if err != nil {
		return err
	}
	defer nc.Close()
	opening, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	group, err := cohort.Open(opening, nc, g.Prefix, g.Bucket, name)
	if err == nil {
		err = f(group)
	}
	if errors.Is(err, cohort.ErrNoGroup) && g.Bucket != subjects.WorkersBucket {
		return fmt.Errorf("%w; one that owns all shards alone, as in `rollcall up`, needs none", err)
	}
	return severed(nc, misused(err))
}

// misused marks what was asked wrongly.
func misused(err error) error {
	switch {
	case errors.Is(err, cohort.ErrConfig):
		return fmt.Errorf("%w: %w", errUsage, err)
	case errors.Is(err, cohort.ErrNoGroup):
		return fmt.Errorf("%w; `rollcall cohort ls` lists those that are there", err)
	}
	return err
}

type cohortLsCmd struct{ grouping }

func (c *cohortLsCmd) Run(ctx context.Context, std console) error {
	nc, err := c.connect(std)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	names, err := cohort.Groups(ctx, nc, c.Prefix, c.Bucket)
	if errors.Is(err, cohort.ErrNoGroup) {
		err = nil // not even a place for one
	}
	if err != nil {
		return severed(nc, misused(err))
	}
	if len(names) == 0 && !c.JSON {
		fmt.Fprintln(std.err, "no worker groups here")
		return nil
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "GROUP\tMEMBERS\tPARTITIONS\tUNOWNED\tCOORDINATOR\tGENERATION")
	}
	for _, name := range names {
		group, err := cohort.Open(ctx, nc, c.Prefix, c.Bucket, name)
		if err != nil {
			return severed(nc, misused(err))
		}
		v, err := group.View(ctx)
		if err != nil {
			return severed(nc, err)
		}
		line := summary(name, v)
		if c.JSON {
			if err := json.NewEncoder(std.out).Encode(line); err != nil {
				return err
			}
			continue
		}
		asOf(std, name, v)
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%d\n", name, line.members(), line.Partitions, line.Unowned, dash(line.Coordinator), line.Generation)
	}
	return table.Flush()
}

// A groupLine is a group in one line.
type groupLine struct {
	Group       string                `json:"group"`
	Members     map[machine.State]int `json:"members"`
	Partitions  int                   `json:"partitions"`
	Unowned     int                   `json:"unowned"`
	Coordinator string                `json:"coordinator,omitempty"`
	Generation  uint64                `json:"generation"`
}

func summary(name string, v cohort.View) groupLine {
	line := groupLine{Group: name, Members: make(map[machine.State]int), Partitions: len(v.Partitions), Coordinator: v.Coordinator, Generation: v.Generation}
	for _, m := range v.Members {
		line.Members[m.State]++
	}
	for _, p := range v.Partitions {
		if p.Owner == "" {
			line.Unowned++
		}
	}
	return line
}

// members counts them by state, the healthy ones first.
func (l groupLine) members() string {
	var words []string
	for _, state := range []machine.State{machine.Healthy, machine.Suspect, machine.Joining, machine.Left} {
		if n := l.Members[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	return dash(strings.Join(words, ", "))
}

type cohortShowCmd struct {
	Group string `arg:"" help:"The group."`
	grouping
}

func (c *cohortShowCmd) Run(ctx context.Context, std console) error {
	return c.open(ctx, std, c.Group, func(g *cohort.Group) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		v, err := g.View(ctx)
		if err != nil {
			return err
		}
		parts, err := g.Parts(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(std.out).Encode(struct {
				Group string `json:"group"`
				cohort.View
				Parts map[int]subjects.CohortPart `json:"parts"`
			}{c.Group, v, parts})
		}
		asOf(std, c.Group, v)
		for _, key := range v.Unreadable {
			fmt.Fprintf(std.err, "record %s makes no sense and counts as not there\n", key)
		}
		printGroup(std.out, c.Group, v)
		printMembers(std.out, v)
		printPartitions(std.out, v, parts)
		return nil
	})
}

func printGroup(out io.Writer, name string, v cohort.View) {
	t := v.Timing
	fmt.Fprintf(out, "group %s, generation %d, coordinated by %s, as of %s\n", name, v.Generation, dash(v.Coordinator), v.At.Local().Format(timeLayout))
	fmt.Fprintf(out, "heartbeat %s, dead after %s, held for %s after a goodbye\n\n", t.Heartbeat, t.Timeout, t.Hold)
}

// asOf warns of a group in which time stands still.
func asOf(std console, name string, v cohort.View) {
	if silent := time.Since(v.At); silent > 2*v.Timing.Timeout {
		fmt.Fprintf(std.err, "nobody has coordinated %s for %s: what is shown is as it was then\n", name, silent.Round(time.Second))
	}
}

func printMembers(out io.Writer, v cohort.View) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tSTATE\tREASON\tPARTITIONS\tWEIGHT\tLOAD\tHEARD\tPROGRESS\tWHERE")
	ago := func(t time.Time) string { return max(v.At.Sub(t), 0).Round(time.Second).String() + " ago" }
	for _, m := range v.Members {
		state := string(m.State)
		if m.Drained {
			state += ", drained"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%g\t%s\t%s\t%s\n", m.ID, state, spaced(m.Reason), m.Partitions, m.Weight, m.Load, ago(m.Seen), ago(m.Progress), m.Info)
	}
	table.Flush()
}

func printPartitions(out io.Writer, v cohort.View, parts map[int]subjects.CohortPart) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nPARTITION\tOWNER\tOFFSET\tGENERATION\tREASON\tNOTE")
	for n, p := range v.Partitions {
		var notes []string
		part, taken := parts[n]
		if p.Owner != "" && (!taken || part.Generation != p.Generation) {
			notes = append(notes, "not taken over yet")
		}
		if p.Next != "" {
			notes = append(notes, "goes to "+p.Next+" when released")
		}
		if pin := v.Pinned[n]; pin != "" {
			notes = append(notes, "to stay with "+pin)
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%s\t%s\n", n, dash(p.Owner), part.Offset, p.Generation, spaced(p.Why), strings.Join(notes, ", "))
	}
	table.Flush()
}

func spaced(reason string) string { return dash(strings.ReplaceAll(reason, "_", " ")) }

type cohortWatchCmd struct {
	Group string        `arg:"" help:"The group."`
	For   time.Duration `placeholder:"DURATION" help:"Stop after this time (default: when interrupted)."`
	grouping
}

func (c *cohortWatchCmd) Help() string {
	return `Prints who is there, and then every change as it comes: members that join, fall silent, expire or say goodbye, and partitions that move, each
with its reason. "expired" and "left" are never mixed up: the one was silent for too long, the other said goodbye.`
}

func (c *cohortWatchCmd) Run(ctx context.Context, std console) error {
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	err := c.open(ctx, std, c.Group, func(g *cohort.Group) error {
		first := true
		return g.Watch(ctx, func(v cohort.View, events []cohort.Event) error {
			if first && !c.JSON {
				fmt.Fprintf(std.err, "watching %s: %s, coordinated by %s; Ctrl-C stops\n", c.Group, summary(c.Group, v).members(), dash(v.Coordinator))
			}
			first = false
			for _, e := range events {
				if err := c.print(std, e); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if c.For > 0 && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (c *cohortWatchCmd) print(std console, e cohort.Event) error {
	if c.JSON {
		return json.NewEncoder(std.out).Encode(e)
	}
	_, err := fmt.Fprintf(std.out, "%s  %s\n", e.At.Local().Format("15:04:05.000"), e)
	return err
}

type cohortDrainCmd struct {
	Group  string        `arg:"" help:"The group."`
	Member string        `arg:"" help:"The member."`
	Undo   bool          `help:"Let it have partitions again."`
	Wait   time.Duration `default:"30s" help:"How long to wait until it has nothing left; 0 does not wait."`
	grouping
}

func (c *cohortDrainCmd) Help() string {
	return `The member is asked for its partitions and releases them one by one, when it has committed its work. It stays drained, over restarts too,
until --undo. Ends with exit code 1 if it still has some when --wait is over; it goes on giving them away.`
}

func (c *cohortDrainCmd) Run(ctx context.Context, std console) error {
	return c.open(ctx, std, c.Group, func(g *cohort.Group) error {
		v, err := g.View(ctx)
		if err != nil {
			return err
		}
		if c.Undo {
			if err := g.Undrain(ctx, c.Member); err != nil {
				return err
			}
			return c.report(std, "can have partitions again", 0)
		}
		m, err := find(v, c.Member)
		if err != nil {
			return err
		}
		if err := g.Drain(ctx, c.Member); err != nil {
			return err
		}
		if c.Wait == 0 {
			return c.report(std, fmt.Sprintf("is drained of %d partitions", m.Partitions), m.Partitions)
		}
		left, err := c.wait(ctx, g)
		if err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%s still has %d partitions after %s; it may have nobody to give them to, or not release them", c.Member, left, c.Wait)
		}
		return c.report(std, "has no partitions", 0)
	})
}

func (c *cohortDrainCmd) report(std console, text string, left int) error {
	if c.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Group   string `json:"group"`
			Member  string `json:"member"`
			Drained bool   `json:"drained"`
			Left    int    `json:"partitions"`
		}{c.Group, c.Member, !c.Undo, left})
	}
	_, err := fmt.Fprintln(std.out, c.Member, text)
	return err
}

// errDone ends a watch that has seen what it waited for.
var errDone = errors.New("done")

// wait waits until the member has nothing left, and returns what it has.
func (c *cohortDrainCmd) wait(ctx context.Context, g *cohort.Group) (left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	err = g.Watch(ctx, func(v cohort.View, _ []cohort.Event) error {
		m, err := find(v, c.Member)
		if left = m.Partitions; err != nil || left == 0 {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return left, err
}

// find finds a member; who is not there may be mistyped.
func find(v cohort.View, id string) (machine.MemberView, error) {
	i := slices.IndexFunc(v.Members, func(m machine.MemberView) bool { return m.ID == id })
	if i >= 0 {
		return v.Members[i], nil
	}
	var known []string
	for _, m := range v.Members {
		known = append(known, m.ID)
	}
	return machine.MemberView{}, fmt.Errorf("%w: there is no member %q; there is: %s", errUsage, id, dash(strings.Join(known, ", ")))
}

type cohortMoveCmd struct {
	Group     string `arg:"" help:"The group."`
	Partition int    `arg:"" help:"The partition."`
	Member    string `arg:"" optional:"" help:"The member that shall have it."`
	Free      bool   `help:"Let the partition move again."`
	grouping
}

func (c *cohortMoveCmd) Help() string {
	return `The owner is asked to release the partition, and then it goes to the member, and stays there as long as that lives; the others share out the rest.
It may go elsewhere again after --free.`
}

func (c *cohortMoveCmd) Run(ctx context.Context, std console) error {
	if (c.Member == "") != c.Free {
		return fmt.Errorf("%w: name the member that shall have the partition, or --free", errUsage)
	}
	return c.open(ctx, std, c.Group, func(g *cohort.Group) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		text := "may move again"
		if c.Free {
			if err := g.Free(ctx, c.Partition); err != nil {
				return err
			}
		} else {
			v, err := g.View(ctx)
			if err != nil {
				return err
			}
			m, err := find(v, c.Member)
			if err != nil {
				return err
			}
			if m.Drained {
				return fmt.Errorf("%w: %s is drained; `rollcall cohort drain %s %s --undo` ends that", errUsage, c.Member, c.Group, c.Member)
			}
			if err := g.Move(ctx, c.Partition, c.Member); err != nil {
				return err
			}
			text = "goes to " + c.Member
		}
		if c.JSON {
			return json.NewEncoder(std.out).Encode(struct {
				Group     string `json:"group"`
				Partition int    `json:"partition"`
				Member    string `json:"member,omitempty"`
			}{c.Group, c.Partition, c.Member})
		}
		_, err := fmt.Fprintf(std.out, "partition %d %s\n", c.Partition, text)
		return err
	})
}

type cohortCreateCmd struct {
	Group      string        `arg:"" help:"The group."`
	Partitions int           `required:"" placeholder:"N" help:"How many partitions it has, for good."`
	Hold       time.Duration `default:"10s" help:"How long partitions wait for a member that said goodbye."`
	Release    time.Duration `default:"10s" help:"How long an owner may take to release a partition."`
	Stall      time.Duration `help:"Without progress for this long, a member with load is suspect (default: never)."`
	grouping
}

func (c *cohortCreateCmd) Run(ctx context.Context, std console) error {
	nc, err := c.connect(std)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	timing := cohort.Worker()
	timing.Hold, timing.Release, timing.Stall = c.Hold, c.Release, c.Stall
	if c.Partitions == 0 {
		return fmt.Errorf("%w: a group has at least one partition", errUsage)
	}
	if err := cohort.Create(ctx, nc, c.Prefix, c.Bucket, c.Group, c.Partitions, timing); err != nil {
		return severed(nc, misused(err))
	}
	if c.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Group      string        `json:"group"`
			Partitions int           `json:"partitions"`
			Timing     cohort.Timing `json:"timing"`
		}{c.Group, c.Partitions, timing})
	}
	_, err = fmt.Fprintf(std.out, "group %s has %d partitions\n", c.Group, c.Partitions)
	return err
}
