package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type initCmd struct {
	DryRun      bool          `help:"Change nothing; say what would be done."`
	PrintConfig string        `type:"path" placeholder:"DIR" help:"Ask no server: make the keys, if there are none, and print what its configuration must say. It keeps accounts in DIR."`
	NoAccounts  bool          `help:"Make streams and buckets in the account of --creds or --context, and leave identities to you."`
	Creds       string        `env:"NATS_CREDS" type:"existingfile" placeholder:"FILE" help:"Credentials for --no-accounts."`
	Context     string        `env:"NATS_CONTEXT" placeholder:"NAME" help:"NATS context for --no-accounts."`
	Prefix      string        `default:"presence" help:"Prefix of the fabric's subjects."`
	Shards      int           `placeholder:"N" help:"Shards of a new fabric, fixed for its life (default 4)."`
	Replicas    int           `placeholder:"N" help:"Replicas of every stream and bucket (default: what is there, or 1)."`
	Retention   time.Duration `help:"How long log and heartbeats are kept (default: what is there, or 48h)."`
	Archive     *bool         `negatable:"" help:"Keep log and heartbeats until 'rollcall ledger archive' has them, at least for the retention (default: what is there, or not)."`
	timing
	managing
}

func (c *initCmd) Help() string {
	return `Prepares a NATS system for a fabric: keys, an account in which every role has a signing key, streams and buckets. It can be
repeated: what is there stays, what has changed is changed, and every thing is printed with what was done.

On a server in operator mode the account is made through the system account. If the operator is not that of the keys, give
--system-creds and --operator-key (a signing key of the operator is enough, and is not kept); then keep using --operator-key
with 'rollcall token revoke'. For a server without operator mode, what belongs into its configuration is printed; --print-config
does so before there is a server.`
}

func (c *initCmd) Run(ctx context.Context, std console) error {
	if c.PrintConfig != "" && c.DryRun {
		return fmt.Errorf("%w: --print-config prints keys that --dry-run would not keep", errUsage)
	}
	params, warnings, err := c.params()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(std.err, "rollcall: warning:", w)
	}
	if !c.chosen() {
		params = rollcall.Params{}
	}
	l := newTally(std.out, c.DryRun)
	defer l.print()
	config := fabric.Config{
		Prefix: c.Prefix, Shards: c.Shards, Params: params, Replicas: c.Replicas, Retention: c.Retention, Archive: c.Archive, DryRun: c.DryRun,
		Report: func(what string, done fabric.Done) { l.note(what, string(done)) },
	}
	if c.NoAccounts {
		nc, err := target{Server: c.Server, Creds: c.Creds, Context: c.Context, clientTLS: c.clientTLS}.dial(std, briefly("init"))
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = ensure(ctx, std, nc, config)
		return err
	}
	return c.prepare(ctx, std, l, config)
}

// prepare makes keys, account, streams and buckets, in this order.
func (c *initCmd) prepare(ctx context.Context, std console, l *tally, config fabric.Config) error {
	authority, made, err := c.keys(l)
	if err != nil {
		return err
	}
	names, err := subjects.New(c.Prefix, max(c.Shards, 1))
	if c.Shards == 0 && err == nil {
		names, err = subjects.New(c.Prefix, subjects.DefaultShards)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if c.PrintConfig != "" {
		l.discard()
		return printConfig(std, authority, c.PrintConfig)
	}
	system, err := c.manage(std, authority)
	if err != nil {
		return err
	}
	defer system.Close()
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	known, err := natsd.LookupClaims(asking, system, authority.Account())
	if errors.Is(err, natsd.ErrUnmanaged) {
		l.discard()
		return c.explain(std, authority, made, err)
	}
	if err != nil {
		return err
	}
	// Without the operator's signing key nobody can look into the account.
	first := known == nil || !authority.Admits(known, identity.Operator)
	if first && c.DryRun {
		changes, err := settleClaims(ctx, system, authority, names, true)
		l.noteAll(changes)
		l.note("every stream and bucket", string(fabric.Made))
		return err
	}
	return c.settle(ctx, std, system, authority, names, first, l, config)
}

// settle makes the fabric in the account, and gives every role its rights there. Only
// the fabric knows how many shards it has, and a new account must be there before.
func (c *initCmd) settle(ctx context.Context, std console, system *nats.Conn, authority *identity.Authority, names subjects.Names, first bool, l *tally, config fabric.Config) error {
	if first {
		changes, err := settleClaims(ctx, system, authority, names, false)
		if err != nil {
			return err
		}
		l.noteAll(changes)
	}
	options, err := as(authority.Issuer(), shift, identity.Operator, "init")
	if err != nil {
		return err
	}
	nc, err := target{Server: c.Server, clientTLS: c.clientTLS}.dial(std, append(briefly("init"), options...))
	if err != nil {
		return err
	}
	defer nc.Close()
	found, incomplete := ensure(ctx, std, nc, config)
	if incomplete != nil && !errors.Is(incomplete, fabric.ErrIncomplete) {
		return incomplete
	}
	changes, err := settleClaims(ctx, system, authority, found.Names, c.DryRun)
	if err != nil {
		return err
	}
	if !first {
		l.noteAll(changes)
	}
	return incomplete
}

// dir is where the keys are, or will be.
func (c *initCmd) dir() string { return cmp.Or(c.Keys, defaultKeys()) }

// keys finds the keys or makes them. Those for another's operator hold none of ours.
func (c *initCmd) keys(l *tally) (authority *identity.Authority, made bool, err error) {
	dir := c.dir()
	if !c.DryRun {
		if err := keydir.Complete(dir); err != nil {
			return nil, false, err
		}
	}
	authority, err = keydir.Read(dir)
	switch {
	case err == nil:
		l.note("keys "+dir, string(fabric.Kept))
		authority, err = c.operatorOf(authority)
		return authority, false, err
	case !errors.Is(err, keydir.ErrMissing):
		return nil, false, err
	}
	l.note("keys "+dir, string(fabric.Made))
	if authority, err = identity.Generate(); err != nil {
		return nil, false, err
	}
	under, err := c.operatorOf(authority)
	if err != nil || c.DryRun {
		return under, true, err
	}
	if c.OperatorKey != "" {
		seeds := authority.Seeds()
		seeds.Operator, seeds.System = "", ""
		if authority, err = identity.NewAuthority(seeds); err != nil {
			return nil, false, err
		}
	}
	return under, true, keydir.Write(dir, authority)
}

// explain prints what makes a server ask for identities: a piece of configuration, so
// that the output can be written to a file. The account gets its signing keys with the next
// run; here they would only make a long line.
func (c *initCmd) explain(std console, authority *identity.Authority, made bool, cause error) error {
	if made && c.DryRun { // the keys are gone in a moment
		return fmt.Errorf("%w; without --dry-run, keys would be made, and what belongs into the server's configuration printed", cause)
	}
	fmt.Fprintln(std.out, "# The server asks nobody for a credential, or takes no accounts over this connection. Include this in its configuration, start it\n"+
		"# again, and run init again. \"./accounts\" is relative to the directory in which the server is started: better name a whole path.\n"+
		"# What it stores for clients without an account stays behind, in the account $G.")
	if err := printConfig(std, authority, "./accounts"); err != nil {
		return errors.Join(cause, err)
	}
	return fmt.Errorf("keys are in %s, and nothing is prepared on the server yet (%w): include what was printed in the server's configuration, start it again, and run init again; --no-accounts goes without identities", c.dir(), cause)
}

// printConfig prints what has a server believe the authority.
func printConfig(std console, authority *identity.Authority, dir string) error {
	bare, err := authority.Bare()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, `operator: %s
system_account: %s
resolver {
  type: full
  dir: %q
}
resolver_preload {
  %s: %s
  %s: %s
}
`, bare.Operator, authority.System(), dir, authority.System(), bare.System, authority.Account(), bare.Account)
	return err
}

// ensure makes what is missing, and waits for replicas that are new.
func ensure(ctx context.Context, std console, nc *nats.Conn, config fabric.Config) (fabric.Fabric, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return fabric.Fabric{}, err
	}
	var touched bool
	report := config.Report
	config.Report = func(what string, done fabric.Done) {
		touched = touched || done != fabric.Kept
		report(what, done)
	}
	// Replicated streams of many shards take their time.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	found, err := fabric.Ensure(ctx, js, config)
	if err != nil || !touched || config.DryRun {
		return found, err
	}
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if fabric.Settled(soon, js, found.Names) == nil {
		return found, nil
	}
	fmt.Fprintln(std.err, "rollcall: waiting until every replica holds everything; Ctrl-C does not stop the servers from going on")
	if err := fabric.Settled(ctx, js, found.Names); err != nil {
		return found, fmt.Errorf("%w; if all servers are up they go on by themselves, and 'rollcall doctor' says what is still missing", err)
	}
	return found, nil
}

// briefly are the options of a connection for one task.
func briefly(name string) []nats.Option {
	return []nats.Option{nats.Name("rollcall " + name), nats.Timeout(5 * time.Second), nats.NoReconnect()}
}

// A tally prints what was done, or would be.
type tally struct {
	out    io.Writer
	lines  [][2]string
	dryRun bool
}

func newTally(out io.Writer, dryRun bool) *tally { return &tally{out: out, dryRun: dryRun} }

func (l *tally) discard() { l.lines = nil }

// print writes the lines in the order in which things are needed, whatever the order in
// which they were made.
func (l *tally) print() {
	slices.SortStableFunc(l.lines, func(a, b [2]string) int {
		return cmp.Or(rank(a[1])-rank(b[1]), strings.Compare(padded(a[1]), padded(b[1])))
	})
	table := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	for _, line := range l.lines {
		fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
	}
	table.Flush()
}

// rank sorts keys before the account, the account before what is in it.
func rank(what string) int {
	for i, kind := range []string{"keys ", "account ", "former signing key ", "signing key ", "bucket ", "stream "} {
		if strings.HasPrefix(what, kind) {
			return i
		}
	}
	return 99
}

// padded has shard 10 sort after shard 9.
func padded(what string) string {
	i := len(strings.TrimRight(what, "0123456789"))
	return fmt.Sprintf("%s%12s", what[:i], what[i:])
}

func (l *tally) note(what, done string) {
	if l.dryRun && done != string(fabric.Kept) {
		done = "would be " + done
	}
	l.lines = append(l.lines, [2]string{done, what})
}

func (l *tally) noteAll(changes []identity.Change) {
	for _, c := range changes {
		l.note(c.What, string(c.Done))
	}
}
