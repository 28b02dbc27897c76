package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the report for people.
func (r Report) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, shard %d, as of %s\n", r.User, r.Shard, clock(r.AsOf))
	for _, why := range r.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	r.writeDevices(&b)
	r.writePolicy(&b)
	r.writeFrames(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func table(b *strings.Builder, rows func(row func(cells ...string))) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	rows(func(cells ...string) { fmt.Fprintln(w, "  "+strings.Join(cells, "\t")) })
	w.Flush()
}

func (r Report) writeDevices(b *strings.Builder) {
	if len(r.Devices) == 0 {
		return
	}
	b.WriteString("\ndevices\n")
	table(b, func(row func(...string)) {
		row("DEVICE", "EDGE", "CONN", "SINCE", "STATE", "LEASE RENEWED", "LEASE ENDS")
		for _, d := range r.Devices {
			if d.Current == nil {
				row(d.Device, "-", "-", clock(d.Epoch), "not connected", "", "")
			} else {
				row(append([]string{d.Device}, r.cells(*d.Current, "")...)...)
			}
			for _, c := range d.Stale {
				row(append([]string{d.Device}, r.cells(c, " (superseded)")...)...)
			}
		}
	})
}

func (r Report) cells(c Connection, note string) []string {
	state := c.State + note
	if c.Activity != "" {
		state += " " + c.Activity
	}
	renewed, ends := "none", ""
	if l := c.Lease; l != nil {
		renewed, ends = from(r.AsOf, l.Renewed), from(r.AsOf, l.Ends)
		if l.Restarted {
			ends = "by another process"
		}
	}
	return []string{c.Edge, fmt.Sprint(c.Number), clock(c.Epoch), state, renewed, ends}
}

func (r Report) writePolicy(b *strings.Builder) {
	p := r.Policy
	if p == nil {
		return
	}
	b.WriteString("\npolicy\n")
	for _, s := range p.Statuses {
		line := fmt.Sprintf("  says of itself: %s", s.Availability)
		if s.Text != "" {
			line += fmt.Sprintf(" %q", s.Text)
		}
		if !s.Until.IsZero() {
			line += " until " + clock(s.Until)
		}
		fmt.Fprintf(b, "%s (priority %d)\n", line, s.Priority)
	}
	fmt.Fprintf(b, "  contacts: %d, blocks: %d, overrides: %d, groups: %s\n", len(p.Contacts), len(p.Blocks), len(p.Overrides), orNone(strings.Join(p.Groups, " ")))
	for _, relation := range []struct {
		name string
		may  fmt.Stringer
	}{{"contacts", stringer(p.Contact)}, {"members", stringer(p.Member)}, {"everyone", stringer(p.Everyone)}} {
		if relation.may != nil {
			fmt.Fprintf(b, "  %s may know: %s\n", relation.name, relation.may)
		}
	}
}

func stringer[T fmt.Stringer](t *T) fmt.Stringer {
	if t == nil {
		return nil
	}
	return *t
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (r Report) writeFrames(b *strings.Builder) {
	fmt.Fprintf(b, "\nlast frames, of %d messages of the log", r.Searched.Messages)
	switch {
	case r.Searched.Whole:
		b.WriteString(", which is all of it")
	case !r.Searched.Since.IsZero():
		fmt.Fprintf(b, " since %s", clock(r.Searched.Since))
	}
	b.WriteByte('\n')
	if len(r.Frames) == 0 {
		b.WriteString("  none names this user\n")
		return
	}
	table(b, func(row func(...string)) {
		row("STORED", "SEQUENCE", "EDGE", "SAYS")
		for _, f := range r.Frames {
			stored, seq, edge := f.At.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprint(f.Sequence), f.Edge
			for _, e := range f.Entries {
				row(stored, seq, edge, e.text(f.At))
				stored, seq, edge = "", "", ""
			}
		}
	})
}

// text is what an entry says; the time only where it differs from when it was stored.
func (e Entry) text(stored time.Time) string {
	words := []string{e.Kind}
	for _, word := range []string{e.Device, e.State, e.Activity, e.Reason} {
		if word != "" {
			words = append(words, word)
		}
	}
	if e.Number != 0 {
		words = append(words, fmt.Sprintf("conn %d", e.Number))
	}
	const soon = 2 * time.Second
	if late := stored.Sub(e.At); !e.At.IsZero() && (late > soon || late < -soon) {
		words = append(words, "of "+clock(e.At))
	}
	if !e.Seen.IsZero() {
		words = append(words, "last heard "+clock(e.Seen))
	}
	return strings.Join(words, " ")
}
