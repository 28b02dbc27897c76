package trial

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
)

// Thresholds are those of the table.
var Thresholds = []float64{1, 2, 3, 5, 8, 10, 12}

// Table writes what the fixed timeout and φ at each threshold do on connections, φ with the
// pause of the configuration and without any.
func Table(w io.Writer, connections []Connection, p rollcall.Params) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fixed := Run(connections, Fixed(p))
	fmt.Fprintf(w, "%.0f connection hours, %d deaths\n", fixed.Watched.Hours(), len(fixed.Found))
	fmt.Fprint(table, "\tfalse/1000 h\tmean s\tmedian s\tp99 s\tno pause: false/1000 h\tmean s\tmedian s\tp99 s\t\n")
	fmt.Fprintf(table, "fixed %s\t%s\t\t\t\t\t\n", p.IdleTimeout, fixed)
	for _, threshold := range Thresholds {
		row := [2]Result{}
		for i, config := range []phi.Config{{Threshold: threshold}, {Threshold: threshold, Pause: -1}} {
			d, err := phi.New(config, p)
			if err != nil {
				return err
			}
			row[i] = Run(connections, Accrual(d))
		}
		fmt.Fprintf(table, "φ ≥ %v\t%s\t%s\t\n", threshold, row[0], row[1])
	}
	return table.Flush()
}

// String is the result as cells of the table.
func (r Result) String() string {
	return fmt.Sprintf("%.1f\t%.1f\t%.1f\t%.1f", r.FalsePerThousandHours(), r.Mean().Seconds(), r.Quantile(0.5).Seconds(), r.Quantile(0.99).Seconds())
}
