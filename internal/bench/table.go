package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	m, s := r.Machine, r.Sizes
	fmt.Fprintf(w, "%d cores shared by server, fabric, load and viewers; %s/%s, %s, nats-server %s, %s, %s storage, %d shards\n\n",
		m.Cores, m.OS, m.Arch, m.Go, m.Server, m.Transport, m.Storage, s.Shards)
	if r.Figures.Growth != nil {
		if err := r.Figures.Growth.writeTable(w); err != nil {
			return err
		}
	}
	if len(r.lines()) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEASURE\tROLLCALL\tBESIDE IT\tRATIO")
	var notes []string
	for _, l := range r.lines() {
		fmt.Fprintln(table, strings.Join([]string{l.measure, l.rollcall, l.beside, l.ratio}, "\t"))
		if l.note != "" {
			notes = append(notes, l.note)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, note := range notes {
		fmt.Fprintln(w, "*", note)
	}
	_, err := fmt.Fprintf(w, "* Rates are medians of %d rounds; everything sent was seen to arrive.\n", s.Rounds)
	return err
}

// A line of the table, and what a reader must know to understand it.
type line struct{ measure, rollcall, beside, ratio, note string }

func (r Report) lines() (lines []line) {
	f := r.Figures
	if f.Opens != nil {
		lines = append(lines, r.openLines()...)
	}
	if f.Changes != nil {
		lines = append(lines, r.changeLines()...)
	}
	if f.Storm != nil {
		lines = append(lines, r.stormLines()...)
	}
	if f.Latency != nil {
		lines = append(lines, r.latencyLines()...)
	}
	if f.Renewals != nil {
		lines = append(lines, r.renewalLines()...)
	}
	if h := f.Heartbeats; h != nil {
		lines = append(lines, line{
			"heartbeats taken by one core", perSecond(h.PerSecond.Median), perSecond(h.Target) + " is the target",
			r.ratio("heartbeats_to_target"),
			fmt.Sprintf("Heartbeats: %s connections of one edge, %v ns each; the target is ten million connections every 30 s.",
				thousands(float64(r.Sizes.Beating)), h.Nanoseconds),
		})
	}
	return lines
}

func (r Report) openLines() []line {
	o := r.Figures.Opens
	writes := o.KVWrites + o.LogWrites
	return []line{
		{
			"opens until visible to a viewer", perSecond(o.Visible.Median),
			fmt.Sprintf("%s JetStream writes of %d B", perSecond(o.JetStream.Median), r.Sizes.Baseline), r.ratio("opens_to_jetstream_writes"),
			fmt.Sprintf("Opens: %s new users a round, from the first Connect to the last event. One costs %.2f KV writes and %.3f log messages.",
				thousands(float64(r.Sizes.Opens)), o.KVWrites, o.LogWrites),
		},
		{"  as writes to the store", perSecond(o.Visible.Median * writes), "the same", r.ratio("open_writes_to_jetstream_writes"), ""},
	}
}

func (r Report) changeLines() []line {
	c := r.Figures.Changes
	return []line{
		{
			"changes delivered to viewers", perSecond(c.Delivered.Median), perSecond(c.Allowed) + " with one message a window",
			r.ratio("changes_delivered_to_allowed"),
			fmt.Sprintf("Changes: %s viewers with %d targets each, all of which change again within every window; what comes sooner is merged.%s",
				thousands(float64(r.Sizes.Viewers)), r.Sizes.Targets, r.paced()),
		},
		{
			"  as messages", perSecond(c.Messages.Median), fmt.Sprintf("%s core messages of %.0f B", perSecond(c.Core.Median), c.Bytes),
			r.ratio("change_messages_to_core_messages"), "",
		},
	}
}

// paced warns of a figure that says more about the window than about the machine.
func (r Report) paced() string {
	if r.Ratios["changes_delivered_to_allowed"] < 0.9 {
		return ""
	}
	return " The window limits this figure; more --viewers would be told more."
}

func (r Report) stormLines() []line {
	s, sizes := r.Figures.Storm, r.Sizes
	resident := ""
	if s.RSSPeak > 0 {
		resident = fmt.Sprintf(", %s of the whole process", megabytes(s.RSSPeak))
	}
	return []line{
		{
			"storm: messages to a viewer", decimal(s.PerViewer), fmt.Sprintf("%d changes", sizes.StormTargets), "",
			fmt.Sprintf("Storm: an edge with %s users crashes, %s viewers watch %d of them each; a message of %.0f B holds %s changes. Until the last change: the worst of the rounds.",
				thousands(float64(sizes.StormUsers)), thousands(float64(sizes.StormViewers)), sizes.StormTargets, s.Bytes, decimal(s.ChangesEach)),
		},
		{"  from the first change told to the last", millis(s.Told.Max), "", "", ""},
		{
			"  from the first one written to the last told", millis(s.Written.Max), millis(s.Bound.Max) + " is the bound",
			r.ratio("storm_last_change_to_bound"), r.boundBroken(),
		},
		{
			"  messages when all are due at once", perSecond(s.Burst.Median),
			fmt.Sprintf("%s core messages of %.0f B", perSecond(s.Core.Median), s.BurstBytes), r.ratio("storm_messages_to_core_messages"),
			fmt.Sprintf("Due at once: with a window that outlasts the storm, %s changes a message, from when the messages are due until they have arrived.",
				decimal(s.BurstEach)),
		},
		{"  peak of the heap", megabytes(s.HeapPeak), megabytes(s.HeapBefore) + " before" + resident, "", ""},
	}
}

// boundBroken warns of a change that came too late.
func (r Report) boundBroken() string {
	if r.Figures.Storm.BoundKept {
		return ""
	}
	return "Storm: the last change came later than its bound; the machine was busy with something else, or the fanout is too slow."
}

func (r Report) latencyLines() []line {
	l := r.Figures.Latency
	return []line{
		{
			"open to viewer's event, p50", millis(l.Visible.P50), millis(l.JetStream.P50) + " JetStream ack",
			r.ratio("open_p50_to_jetstream_ack_p50"),
			fmt.Sprintf("Latency: %d single opens on a quiet fabric, a few ms apart and each with a viewer of its own, so nothing is coalesced. On the way are two stored writes, two deliveries from a stream and one core message.",
				l.Visible.Samples),
		},
		{"", "", millis(l.Core.P50) + " core request", r.ratio("open_p50_to_core_request_p50"), ""},
		{"  p99", millis(l.Visible.P99), millis(l.JetStream.P99) + " JetStream ack", "", ""},
		{"  max", millis(l.Visible.Max), millis(l.JetStream.Max) + " JetStream ack", "", ""},
	}
}

func (r Report) renewalLines() []line {
	n := r.Figures.Renewals
	return []line{
		{
			"KV writes per 1,000 renewed connections", strconv.FormatFloat(n.PerThousand, 'f', -1, 64), "1,000 with a key each",
			r.ratio("kv_writes_to_one_per_connection"),
			fmt.Sprintf("Renewals: one edge with %s connections; %s renewed with %d KV writes in all buckets.",
				thousands(float64(r.Sizes.Connections)), thousands(float64(n.Renewed)), n.KVWrites),
		},
		{
			"stored bytes per heartbeat", strconv.FormatFloat(n.BytesPerBeat, 'f', -1, 64), "4 is the goal", "",
			fmt.Sprintf("Bytes per heartbeat: %s heartbeats in the history, with the store's overhead.", thousands(float64(n.Beats))),
		},
	}
}

func (r Report) ratio(name string) string {
	x, ok := r.Ratios[name]
	if !ok {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func perSecond(x float64) string { return thousands(x) + "/s" }

func millis(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + " ms" }

func megabytes(bytes uint64) string { return thousands(float64(bytes)/1e6) + " MB" }

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// thousands writes a number with commas, without a fraction.
func thousands(x float64) string {
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
