// Command rollcall runs a presence fabric and asks it questions.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

const about = `A presence fabric on NATS: who is online, as far as a viewer may know, and how late that can be noticed.

Start with:

  rollcall up                            a whole fabric on this machine
  rollcall replay TRACE.csv --speed 60   real connections come and go
  rollcall watch --viewer me u0074       changes as a viewer receives them
  rollcall who u0074                     the state now
  rollcall top                           how many are online, and for how long today
  rollcall bounds                        how late each way of leaving is noticed`

type cli struct {
	Up       upCmd       `cmd:"" help:"Run a whole fabric in this process: server, keeper, fanout, ledger."`
	Who      whoCmd      `cmd:"" help:"Show the state of users now."`
	Watch    watchCmd    `cmd:"" help:"Show changes of users as a viewer receives them."`
	Explain  explainCmd  `cmd:"" help:"Say why a user is shown as it is."`
	Top      topCmd      `cmd:"" help:"Show how many users are online now, and for how long today."`
	Replay   replayCmd   `cmd:"" help:"Play a connection history into a running fabric."`
	Policy   policyCmd   `cmd:"" help:"Read and change who may know what of a user."`
	Token    tokenCmd    `cmd:"" help:"Mint and revoke credentials."`
	Init     initCmd     `cmd:"" help:"Prepare an existing NATS system: account, streams, buckets."`
	Keeper   keeperCmd   `cmd:"" help:"Run a keeper on an existing NATS system."`
	Fanout   fanoutCmd   `cmd:"" help:"Run a fanout on an existing NATS system."`
	Gateway  gatewayCmd  `cmd:"" help:"Take heartbeats of devices by HTTP and WebSocket."`
	Natsgate natsgateCmd `cmd:"" help:"Take heartbeats of devices that speak NATS."`
	Board    boardCmd    `cmd:"" help:"Serve a page: who is online, and how the fabric is."`
	Bounds   boundsCmd   `cmd:"" help:"Compute how late each way of leaving is noticed."`
	Doctor   doctorCmd   `cmd:"" help:"Examine a running fabric: what is wrong, or that all is well."`
	Bench    benchCmd    `cmd:"" help:"Measure a fabric on this machine beside raw NATS."`
	Ledger   ledgerCmd   `cmd:"" help:"Online time: follow a fabric, import histories, report, export, forget."`
	Cohort   cohortCmd   `cmd:"" help:"Worker groups: who is alive, who owns what; drain and move."`
	Version  versionCmd  `cmd:"" help:"Show the version."`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version."`
}

// console is where a command reads and writes.
type console struct {
	out, err io.Writer
}

// timeLayout is how times are printed, which are local.
const timeLayout = "2006-01-02 15:04:05 MST"

func (std console) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level}))
}

// exit codes: 1 for what went wrong while working, 2 for what was asked wrongly.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	code := run(ctx, os.Args[1:], console{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, std console) (code int) {
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(args[1:len(args):len(args)], "--help")
	}
	exited := errors.New("exited")
	defer func() { // kong ends the process for --help and usage errors through Exit
		if r := recover(); r != nil && r != exited {
			panic(r)
		}
	}()
	parser, err := kong.New(&cli{}, kong.Name("rollcall"), kong.Description(about),
		kong.UsageOnError(), kong.Writers(std.out, std.err), kong.ShortUsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": version()},
		kong.Exit(func(c int) { code = c; panic(exited) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(std))
	if err != nil {
		fmt.Fprintln(std.err, "rollcall:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(std.err, "rollcall: %s; `%s --help` explains\n", plain(err), asked(err))
		return exitUsage
	}
	// The commands on policies are named after their operations, those that mint after
	// the role.
	name := command.Selected().Name
	err = command.Run(subjects.PolicyOp(name), identity.Role(name))
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 0
	case errors.Is(err, errInterrupted):
		code = exitInterrupted
	case errors.Is(err, rollcall.ErrParams), errors.Is(err, natsd.ErrConfig), errors.Is(err, errUsage):
		code = exitUsage
	default:
		code = exitFailed
	}
	fmt.Fprintln(std.err, "rollcall:", plain(err))
	return code
}

// asked is the command that a mistaken command line names.
func asked(err error) string {
	var mistake *kong.ParseError
	if !errors.As(err, &mistake) || mistake.Context.Selected() == nil {
		return "rollcall"
	}
	return mistake.Context.Selected().FullPath()
}

// Names of packages in front of their errors: good in a log, noise for whoever typed a
// command. An edge is also a column of traces, where its name must stay.
var (
	packages  = regexp.MustCompile(`(^|[ (\n])(?:(?:usage|rollcall|natsd|keydir|fabric|identity|subjects|viewer|door|gateway|bearer|keeper|fanout|cohort|bench|nats|store|report|interval|importer|explain|archive|access|pseudonym): )+`)
	edgeTwice = regexp.MustCompile(`(edge "[^"]*": )edge: `)
)

// plain is an error without the marks that only choose the exit code, and without names of
// packages.
func plain(err error) string {
	return edgeTwice.ReplaceAllString(packages.ReplaceAllString(err.Error(), "$1"), "$1")
}

// errUsage marks what was asked wrongly, errInterrupted what was stopped before its
// end although it has one.
var (
	errUsage       = errors.New("usage")
	errInterrupted = errors.New("interrupted")
)

type versionCmd struct{}

func (versionCmd) Run(std console) error {
	_, err := fmt.Fprintln(std.out, version())
	return err
}

func version() string {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return "rollcall " + version
}
