package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"text/tabwriter"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Seconds writes milliseconds as seconds with three decimals.
func Seconds(ms int64) string {
	sign := ""
	if ms < 0 {
		sign, ms = "-", -ms
	}
	return fmt.Sprintf("%s%d.%03d", sign, ms/1000, ms%1000)
}

// Write writes rows as a table, as CSV with a header, or as a JSON list of objects.
func Write(w io.Writer, format string, by []Column, rows []Row) error {
	switch format {
	case "csv":
		return writeCSV(w, by, rows)
	case "json":
		return writeJSON(w, by, rows)
	}
	return writeTable(w, by, rows)
}

func header(by []Column) (names []string) {
	for _, c := range by {
		names = append(names, string(c))
	}
	return append(names, "seconds")
}

func (r Row) cells() []string { return append(slices.Clone(r.Keys), Seconds(r.Total)) }

func writeTable(w io.Writer, by []Column, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		for k, cell := range cells {
			if cell == "" {
				cell = "-"
			}
			if k > 0 {
				cell = "\t" + cell
			}
			fmt.Fprint(table, cell)
		}
		fmt.Fprintln(table)
	}
	line(header(by))
	for _, r := range rows {
		line(r.cells())
	}
	return table.Flush()
}

func writeCSV(w io.Writer, by []Column, rows []Row) error {
	out := csv.NewWriter(w)
	if err := out.Write(header(by)); err != nil {
		return err
	}
	for _, r := range rows {
		if err := out.Write(r.cells()); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func writeJSON(w io.Writer, by []Column, rows []Row) error {
	out := bufio.NewWriter(w)
	out.WriteString("[")
	names := header(by)
	for n, r := range rows {
		if n > 0 {
			out.WriteString(",")
		}
		out.WriteString("\n  {")
		for k, key := range r.Keys {
			text, err := json.Marshal(key)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%q: %s, ", names[k], text)
		}
		fmt.Fprintf(out, "%q: %s}", "seconds", Seconds(r.Total))
	}
	if len(rows) > 0 {
		out.WriteString("\n")
	}
	out.WriteString("]\n")
	return out.Flush()
}

// An Exported row is an interval of a session. Its names are those of the file.
type Exported struct {
	User    string `parquet:"user,dict,zstd"`
	Device  string `parquet:"device,dict,zstd"`
	Session string `parquet:"session,zstd"`
	Client  string `parquet:"client,dict"`
	Version string `parquet:"version,dict"`
	Channel string `parquet:"channel,dict"`
	Region  string `parquet:"region,dict"`
	Measure string `parquet:"measure,dict"`
	From    int64  `parquet:"from,timestamp(millisecond),delta"`
	To      int64  `parquet:"to,timestamp(millisecond),delta"`
}

// perGroup is how many rows a Parquet file keeps in memory before it writes them.
const perGroup = 1 << 16

// Export writes intervals, clipped to bounds, as CSV or Parquet, and says how many.
func Export(w io.Writer, format, measure string, bounds interval.Interval, rows iter.Seq2[store.Row, error]) (n int64, err error) {
	var put func(Exported) error
	var end func() error
	if format == "parquet" {
		out := parquet.NewGenericWriter[Exported](w, parquet.MaxRowsPerRowGroup(perGroup))
		put = func(e Exported) error { _, err := out.Write([]Exported{e}); return err }
		end = out.Close
	} else {
		out := csv.NewWriter(w)
		put = func(e Exported) error {
			return out.Write([]string{
				e.User, e.Device, e.Session, e.Client, e.Version, e.Channel, e.Region, e.Measure, instant(e.From), instant(e.To), Seconds(e.To - e.From),
			})
		}
		end = func() error { out.Flush(); return out.Error() }
		if err := out.Write([]string{"user", "device", "session", "client", "version", "channel", "region", "measure", "from", "to", "seconds"}); err != nil {
			return 0, err
		}
	}
	for r, err := range rows {
		if err != nil {
			return n, err
		}
		i := r.Interval.Clip(bounds)
		if i.Empty() {
			continue
		}
		if err := put(Exported{r.User, r.Device, r.Session, r.Client.Type, r.Client.Version, r.Client.Channel, r.Client.Region, measure, i.From, i.To}); err != nil {
			return n, err
		}
		n++
	}
	return n, end()
}
