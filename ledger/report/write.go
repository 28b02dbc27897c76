package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/ledger"
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

func header(by []Column) []string { return append(columnNames(by), "seconds") }

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

	Seconds float64 `parquet:"seconds"` // to the millisecond
}

// An ExportForm is what an export looks like.
type ExportForm struct {
	Format  string // csv or parquet
	Measure ledger.Measure
	Bounds  interval.Interval // intervals are clipped to them
	// Days, if not nil, is for those who may not know when: instants are those of the
	// beginning and end of days, and sessions, whose ids betray when they began, have no
	// names. Seconds stay as they are.
	Days *interval.Zone
}

// row is an interval as it is written, whose bounds are cut already.
func (f ExportForm) row(r store.Row) Exported {
	e := Exported{
		User: r.User, Device: r.Device, Session: r.Session, Measure: string(f.Measure), From: r.From, To: r.To, Seconds: float64(r.Length()) / 1000,
		Client: r.Client.Type, Version: r.Client.Version, Channel: r.Client.Channel, Region: r.Client.Region,
	}
	if f.Days != nil {
		e.Session = ""
		e.From, e.To = f.Days.Start(f.Days.Date(r.From)), f.Days.Start(f.Days.Date(r.To-1)+1)
	}
	return e
}

// perGroup is how many rows a Parquet file keeps in memory before it writes them.
const perGroup = 1 << 16

// Export writes intervals and says how many.
func Export(w io.Writer, f ExportForm, rows iter.Seq2[store.Row, error]) (n int64, err error) {
	out := exportCSV
	if f.Format == "parquet" {
		out = exportParquet
	}
	put, end, err := out(w)
	if err != nil {
		return 0, err
	}
	for r, err := range rows {
		if err != nil {
			return n, err
		}
		if r.Interval = r.Interval.Clip(f.Bounds); r.Empty() {
			continue
		}
		if err := put(f.row(r)); err != nil {
			return n, err
		}
		n++
	}
	return n, end()
}

func exportParquet(w io.Writer) (put func(Exported) error, end func() error, err error) {
	out := parquet.NewGenericWriter[Exported](w, parquet.MaxRowsPerRowGroup(perGroup))
	put = func(e Exported) error { _, err := out.Write([]Exported{e}); return err }
	return put, out.Close, nil
}

func exportCSV(w io.Writer) (put func(Exported) error, end func() error, err error) {
	out := csv.NewWriter(w)
	put = func(e Exported) error {
		return out.Write([]string{
			e.User, e.Device, e.Session, e.Client, e.Version, e.Channel, e.Region, e.Measure, instant(e.From), instant(e.To), strconv.FormatFloat(e.Seconds, 'f', 3, 64),
		})
	}
	end = func() error { out.Flush(); return out.Error() }
	return put, end, out.Write([]string{"user", "device", "session", "client", "version", "channel", "region", "measure", "from", "to", "seconds"})
}
