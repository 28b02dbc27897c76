package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rollcall-io/rollcall"
)

// timing chooses parameters: a preset, and changes to it.
type timing struct {
	Preset string   `placeholder:"NAME" help:"Timing to start from: default, tight, mobile or worker."`
	Set    []string `sep:"none" placeholder:"NAME=VALUE" help:"Change a parameter; seconds or a duration such as 1m30s. Repeatable. Names: heartbeat, jitter, idle_timeout, check_interval, renewal, lease_ttl, sweep, debounce, outage, buffer."`
}

// chosen says whether any timing was asked for.
func (t timing) chosen() bool { return t.Preset != "" || len(t.Set) > 0 }

func (t timing) params() (rollcall.Params, []string, error) {
	p, err := rollcall.Preset(t.Preset)
	if err != nil {
		return p, nil, fmt.Errorf("%w: --preset: %w", errUsage, err)
	}
	for _, change := range t.Set {
		name, value, found := strings.Cut(change, "=")
		if !found {
			return p, nil, fmt.Errorf("%w: --set %q is not NAME=VALUE", rollcall.ErrParams, change)
		}
		if err := p.Set(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return p, nil, err
		}
	}
	warnings, err := p.Validate()
	return p, warnings, err
}

type boundsCmd struct {
	timing
	JSON bool `help:"Print JSON; times in seconds."`
}

func (c *boundsCmd) Help() string {
	return `A user who leaves is shown offline never before "earliest" and never after "latest". Both count from the instant in the
"counts from" column, while server and keeper run. A keeper failover adds the takeover; an outage of the store adds the
outage and one renewal.

Parameters, in seconds or as a duration such as 1m30s:

  heartbeat       longest time between two heartbeats of a healthy device
  jitter          a fraction: spreads heartbeats and renewals
  idle_timeout    how long a connection may be silent
  check_interval  how late the end of the idle timeout may be noticed
  renewal         how often an edge renews its leases
  lease_ttl       how long a lease holds without renewal
  sweep           how late the end of a lease may be noticed
  debounce        how long a user without connections is still shown
  outage          silence of the log, or of the keeper, from which on it counts as away
  buffer          how old an event may be when it reaches the log

Presets: tight is default with checks every second; mobile has fewer heartbeats and a longer debounce for weak networks;
worker finds a process that died within ten seconds.

Exit code 2 if the parameters are refused because healthy connections would be cut off.`
}

// ways describes the rows of the table in the words of an operator.
var ways = []struct {
	way        rollcall.Way
	what, from string
}{
	{rollcall.WayClose, "the device says goodbye", "the goodbye"},
	{rollcall.WayHalfOpen, "the device falls silent", "the silence"},
	{rollcall.WayEdgeCrash, "its edge crashes", "the crash"},
	{rollcall.WayEdgeRestart, "its edge restarts", "the edge's hello"},
}

func (c *boundsCmd) Run(std console) error {
	params, warnings, err := c.params()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(std.err, "rollcall: warning:", w)
	}
	if c.JSON {
		return printBoundsJSON(std, params, warnings)
	}
	bounds := params.Bounds()
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WAY OF LEAVING\tEARLIEST\tLATEST\tCOUNTS FROM")
	for _, w := range ways {
		window, _ := bounds.Of(w.way)
		fmt.Fprintf(table, "%s (%s)\t%s\t%s\t%s\n", w.way, w.what, short(window.Earliest), short(window.Latest), w.from)
	}
	fmt.Fprintf(table, "keeper failover\t\t+ takeover\t\n")
	fmt.Fprintf(table, "store outage\t\t+ outage + %s\t(one renewal)\n", short(params.LongestRenewal()))
	return table.Flush()
}

func printBoundsJSON(std console, params rollcall.Params, warnings []string) error {
	latest, earliest := map[string]float64{}, map[string]float64{}
	for _, w := range ways {
		window, _ := params.Bounds().Of(w.way)
		latest[w.way.String()], earliest[w.way.String()] = window.Latest.Seconds(), window.Earliest.Seconds()
	}
	out := json.NewEncoder(std.out)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{"params": params, "bounds": latest, "earliest": earliest, "warnings": append([]string{}, warnings...)})
}

// short writes a duration without zero parts.
func short(d time.Duration) string {
	if d%time.Second == 0 && d < 10*time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}
