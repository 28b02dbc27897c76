package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/importer"
	"github.com/rollcall-io/rollcall/ledger/pseudonym"
)

type ledgerImportCmd struct {
	File string `arg:"" type:"existingfile" placeholder:"FILE" help:"CSV or JSON lines with time,user,device,event[,seq]."`
	books
	Cap        *lapse `placeholder:"DURATION" help:"Longest silence between heartbeats that still counts; 0 for no cap."`
	Grace      *lapse `placeholder:"DURATION" help:"How much of the silence after the last heartbeat counts."`
	Definition string `type:"existingfile" placeholder:"FILE" help:"Definition as YAML; 'rollcall ledger definitions --template' prints one."`
}

func (c *ledgerImportCmd) Help() string {
	return `Each line is an event: CSV with the columns time,user,device,event[,seq], with a header or without, or a JSON object with
these fields. Events are open, beat, foreground, background, active, idle, close and timeout, in any order; times are
RFC 3339, or seconds or milliseconds since 1970. Further columns that a header may name: client, version, channel, region.

A session without heartbeats counts as connected from its open to its close. For one with heartbeats the gap cap decides, 60 s
unless the definition or --cap says otherwise; figures of another cap stand beside those that are there, under a definition
of its own. Repeating an import changes nothing. Lines that cannot be read, and events that break a rule, go to
quarantine; if that is all there is, the exit code is 1. Device ids become pseudonyms by a key in the data directory (device.key), made with the first import.`
}

// errNothingTaken is a file that is probably another one than was meant. Imported again, it
// adds nothing to the quarantine and is as wrong as before.
var errNothingTaken = errors.New("nothing in the file could be taken, everything was refused; 'rollcall ledger quarantine list' shows it, with line and reason")

func (c *ledgerImportCmd) Run(ctx context.Context, std console) error {
	d, err := c.definition()
	if err != nil {
		return wrongly(err)
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	key, err := pseudonym.Load(filepath.Join(c.Dir, "device.key"))
	if err != nil {
		return err
	}
	s, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Define(ctx, d); err != nil {
		return wrongly(err)
	}
	name := filepath.Base(c.File)
	if err := note(ctx, s, "import", "", name+" under "+d.Version); err != nil {
		return err
	}
	done, err := importer.Run(ctx, importer.Config{
		Apply: s.Apply, Definition: d, Device: key.Device, Name: name, At: time.Now(), Dir: c.Dir, Progress: importProgress(info.Size(), std),
	}, file)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; run it again, nothing is counted twice", errInterrupted)
	}
	if err != nil {
		return wrongly(err)
	}
	fmt.Fprintf(std.err, "%d events under definition %s: %d sessions new or corrected, %d refused", done.Lines, d.Version, done.Sessions, done.Rejected)
	if done.Known > 0 {
		fmt.Fprintf(std.err, ", %d known before", done.Known)
	}
	if done.Forgotten > 0 {
		fmt.Fprintf(std.err, ", %d of forgotten users left out", done.Forgotten)
	}
	fmt.Fprintln(std.err)
	if done.Taken == 0 && done.Rejected+done.Known > 0 {
		return errNothingTaken
	}
	if done.Rejected > 0 {
		fmt.Fprintln(std.err, "'rollcall ledger quarantine list' shows what was refused, with line and reason")
	}
	return nil
}

func (c *ledgerImportCmd) definition() (d ledger.Definition, err error) {
	d = definition.Default()
	if c.Definition != "" {
		if d, err = readDefinition(c.Definition); err != nil {
			return d, err
		}
	}
	return definition.With(d, (*time.Duration)(c.Cap), (*time.Duration)(c.Grace))
}

func readDefinition(path string) (d ledger.Definition, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	if d, err = definition.Parse(raw); err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// importProgress shows how far an import is: a bar for those who watch, else a line now
// and then.
func importProgress(size int64, std console) func(importer.Progress) {
	if isTerminal(std.err) {
		// Reading is half of the work, building the other.
		bar := progressbar.NewOptions64(2*max(size, 1), progressbar.OptionSetWriter(std.err), progressbar.OptionSetDescription("importing"),
			progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
		return func(p importer.Progress) {
			bar.Set64(p.Bytes + int64(float64(size)*float64(p.Built)/float64(max(p.Lines, 1))))
		}
	}
	const step = 250_000
	var read, built int64
	return func(p importer.Progress) {
		if p.Lines/step > read {
			read = p.Lines / step
			fmt.Fprintf(std.err, "%d lines read, %d%%\n", p.Lines, 100*p.Bytes/max(size, 1))
		}
		if p.Built/step > built {
			built = p.Built / step
			fmt.Fprintf(std.err, "%d of %d lines counted\n", p.Built, p.Lines)
		}
	}
}
