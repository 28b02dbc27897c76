package bench

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// writeTable writes growth for people.
func (g *Growth) writeTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "OWNERS\tOPENS/S\tOF EACH\tFRAMES/S\tKV WRITES/OPEN\tCPU µs/OPEN\tCORES BUSY\t")
	for _, o := range g.Owners {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", o.Owners, thousands(o.Visible.Median), thousands(o.PerOwner), thousands(o.Frames),
			figure(o.KVWrites, 3), figure(o.Busy.Median, 1), figure(o.Cores, 2))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, `
* Owners are keepers, and as many fanouts, that share the shards. An open counts when its viewer has the event. All of it shares the cores: if an open costs
  the same processor time whoever owns the shards, the rate is the cores' that were free for it.

`)
	fmt.Fprintln(table, "CONNECTIONS\tEDGES\tRENEWED\tKV WRITES\tPER LEASE\tPER 1,000\tKV B\tLOG B\tBEATS B\tCPU µs\tABOVE IDLE\t")
	for _, c := range g.Connections {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", thousands(float64(c.Connections)), c.Edges, thousands(float64(c.Renewed)), c.KVWrites,
			figure(c.PerRenewal, 2), figure(c.PerThousand, 4), figure(c.KVBytes, 4), figure(c.LogBytes, 4), figure(c.BeatBytes, 2), figure(c.Busy, 2), figure(c.AboveIdle, 2))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
* Per lease: KV writes for one renewal of one edge in one shard, whatever it holds. From there on for one connection renewed once, every %v s, with two heartbeats:
  KV writes for 1,000 of them, bytes written to the buckets, to the log and to the raw history, processor time of the whole process, and what is left of it without that of a
  fabric that nobody is connected to (%s ms a second).
`, g.Period, figure(g.Idle, 1))
	return err
}

func figure(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
