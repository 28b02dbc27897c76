package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type topCmd struct {
	Every time.Duration `default:"2s" help:"How often the figures are asked for (default ${default})."`
	Once  bool          `help:"Show the figures once and end."`
	JSON  bool          `help:"Print JSON, one object a line."`
	remote
}

func (c *topCmd) Help() string {
	return `Shows how many users are online and how many were active in the last five minutes, and for how long all of them were online today,
in every time zone that the ledger counts days of. Users with several devices at once count once. Heartbeats come with the edges'
renewals, so times of today are up to a minute old. Needs a running ledger ('rollcall up', or 'rollcall ledger run').`
}

func (c *topCmd) Run(ctx context.Context, std console) error {
	if c.Every <= 0 {
		return fmt.Errorf("%w: --every must be positive", errUsage)
	}
	nc, err := c.connectAs(std, "top", party{role: identity.Backend, ids: []string{"top"}, anyName: true, does: "ask how many are online"})
	if err != nil {
		return err
	}
	defer nc.Close()
	s := screen{out: std.out, clear: isTerminal(std.out) && !c.Once && !c.JSON}
	for {
		asking, cancel := context.WithTimeout(ctx, answerTimeout)
		stats, err := live.Ask(asking, nc, c.Prefix)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, subjects.ErrNames):
			return fmt.Errorf("%w: --prefix: %w", errUsage, err)
		case errors.Is(err, live.ErrNobody):
			err = fmt.Errorf("no ledger answers for the fabric %q; is `rollcall up` or `rollcall ledger run` running there, with this prefix?", c.Prefix)
		}
		if err != nil && (c.Once || !s.clear) {
			return severed(nc, err)
		}
		if err := c.show(s, stats, err); err != nil || c.Once {
			return err
		}
		if !retry.Pause(ctx, c.Every) {
			return ctx.Err()
		}
	}
}

func (c *topCmd) show(s screen, stats subjects.Stats, trouble error) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(stats)
	}
	if trouble != nil {
		return s.show(trouble.Error() + "\n")
	}
	return s.show(figures(stats, time.Now()))
}

// figures are the figures as people read them.
func figures(s subjects.Stats, now time.Time) string {
	if len(s.Shards) == 0 {
		return "The ledger has read nothing yet, or stands by for another one.\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "As of %s, %s ago", s.AsOf.Local().Format(timeLayout), max(now.Sub(s.AsOf), 0).Round(time.Second))
	if missing := s.ShardsTotal - len(s.Shards); missing > 0 {
		fmt.Fprintf(&text, "; %d of %d shards do not answer", missing, s.ShardsTotal)
	}
	const short, row = "%-36s %10v\n", "%-36s %10v %15s\n"
	fmt.Fprintf(&text, "\n\n"+short+short+short, "now", "USERS", "  online", s.Online, "  active in the last 5 minutes", s.Active)
	for _, t := range s.Today {
		fmt.Fprintf(&text, "\n"+row, t.Date+" in "+t.Zone, "USERS", "TOGETHER")
		for _, m := range order(t.Measures) {
			fmt.Fprintf(&text, row, "  "+m, t.Measures[m].Users, clock(t.Measures[m].Seconds))
		}
	}
	return text.String()
}

// order is that in which measures contain each other, and then the labels.
func order(measures map[string]subjects.StatsCount) []string {
	usual := []string{string(ledger.Connected), string(ledger.Foreground), string(ledger.Active)}
	var all []string
	for _, m := range usual {
		if _, there := measures[m]; there {
			all = append(all, m)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(measures)) {
		if !slices.Contains(usual, m) {
			all = append(all, m)
		}
	}
	return all
}

// clock writes a time as hours, minutes and seconds.
func clock(s subjects.Seconds) string {
	seconds := int64(s) / 1000
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// A screen shows one text after the other, on a terminal each in the place of the last.
type screen struct {
	out   io.Writer
	clear bool
}

func (s screen) show(text string) error {
	if !s.clear {
		_, err := io.WriteString(s.out, text)
		return err
	}
	const home, rest, below = "\x1b[H", "\x1b[K\n", "\x1b[J" // what was there before goes
	if file, ok := s.out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			text = crop(text, width, height)
		}
	}
	_, err := io.WriteString(s.out, home+strings.ReplaceAll(text, "\n", rest)+below)
	return err
}

// crop is what fits on a screen; a line that wraps would push others off.
func crop(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(height-1, 1))]
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
