package machine

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

var update = flag.Bool("update", false, "write the golden histories anew")

// A golden history is a log and what follows from it. A line at the margin is a
// message; below it, indented, is what the keeper writes and says. The messages:
//
//	SECOND tick
//	SECOND EDGE#INCARNATION ENTRY; ENTRY; …
//
// with the entries hello, leave, renew COUNT DIGEST (or renew right), begin, end, and
// open|state|close|roster CONN USER/DEVICE STATE [epoch=SECOND] [seen=SECOND] [REASON].
func TestGoldenHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden histories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".golden"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(play(t, string(want)))
			if *update {
				err = os.WriteFile(file, got, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) && !*update {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A player turns a golden history into what its log leads to.
type player struct {
	t       *testing.T
	machine *Machine
	seq     uint64
	numbers map[string]uint64
	out     strings.Builder
}

func play(t *testing.T, history string) string {
	p := &player{t: t, machine: New(rollcall.Default(), 0), numbers: make(map[string]uint64)}
	for line := range strings.Lines(history) {
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
			p.out.WriteString(line)
		case line[0] != ' ':
			p.out.WriteString(line)
			p.message(strings.TrimSpace(line))
			mustHold(t, p.machine)
			p.print(p.machine.Take())
		}
	}
	return p.out.String()
}

func (p *player) message(line string) {
	when, rest, _ := strings.Cut(line, " ")
	who, what, _ := strings.Cut(strings.TrimSpace(rest), " ")
	p.seq++
	at := p.second(when)
	if who == "tick" {
		p.machine.Apply(at, p.seq, Source{Tick: true}, nil)
		return
	}
	edge, process, _ := strings.Cut(who, "#")
	incarnation, err := strconv.ParseUint(process, 10, 64)
	if err != nil {
		p.t.Fatalf("%q: %v", line, err)
	}
	p.numbers[who]++
	f := &wire.Frame{Version: 1, Incarnation: incarnation, Number: p.numbers[who]}
	for entry := range strings.SplitSeq(what, ";") {
		f.Entries = append(f.Entries, p.entry(at, edge, strings.Fields(entry)))
	}
	p.machine.Apply(at, p.seq, Source{Edge: edge}, f)
}

func (p *player) second(s string) rollcall.Micros {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.t.Fatalf("second %q: %v", s, err)
	}
	return start + rollcall.Micros(v*float64(second))
}

var goldenKinds = map[string]wire.Kind{
	"hello": wire.Kind_KIND_HELLO, "open": wire.Kind_KIND_OPEN, "state": wire.Kind_KIND_STATE, "close": wire.Kind_KIND_CLOSE,
	"renew": wire.Kind_KIND_RENEW, "begin": wire.Kind_KIND_ROSTER_BEGIN, "roster": wire.Kind_KIND_ROSTER,
	"end": wire.Kind_KIND_ROSTER_END, "leave": wire.Kind_KIND_LEAVE,
}

func (p *player) entry(at rollcall.Micros, edge string, words []string) *wire.Entry {
	e := &wire.Entry{Kind: goldenKinds[words[0]], At: int64(at), Epoch: int64(at)}
	if e.Kind == 0 {
		p.t.Fatalf("unknown entry %q", words)
	}
	if e.Kind == wire.Kind_KIND_RENEW {
		if held := p.machine.edges[edge]; words[1] == "right" && held != nil {
			e.Count, e.Digest = uint64(len(held.claims)), uint64(held.digest)
		} else {
			e.Count, _ = strconv.ParseUint(words[1], 10, 64)
		}
		return e
	}
	for i, word := range words[1:] {
		p.detail(e, i, word)
	}
	return e
}

func (p *player) detail(e *wire.Entry, i int, word string) {
	name, value, assigned := strings.Cut(word, "=")
	reason, isReason := wire.Reason_value["REASON_"+strings.ToUpper(word)]
	switch {
	case i == 0:
		e.Conn, _ = strconv.ParseUint(word, 10, 64)
	case i == 1:
		e.User, e.Device, _ = strings.Cut(word, "/")
	case name == "epoch" && assigned:
		e.Epoch = int64(p.second(value))
	case name == "seen" && assigned:
		e.Seen = int64(p.second(value))
	case isReason:
		e.Reason = wire.Reason(reason)
	default:
		s, err := rollcall.ParseState(word)
		if err != nil {
			p.t.Fatal(err)
		}
		e.State = wire.State(s)
	}
}

// after is an instant as a second of the history.
func after(at int64) string {
	if at == 0 {
		return "never"
	}
	return strconv.FormatFloat(rollcall.Micros(at).Sub(start).Seconds(), 'g', -1, 64)
}

func (p *player) print(c Changes) {
	line := func(format string, args ...any) { fmt.Fprintf(&p.out, "    "+format+"\n", args...) }
	for _, v := range c.Views {
		line("view %s %v version=%d seen=%s", v.User, rollcall.State(v.Record.State), v.Record.Version, after(v.Record.Seen))
	}
	for _, u := range c.Users {
		line("user %s %s", u.ID, describe(u.Record))
	}
	for _, e := range c.Edges {
		if e.Record == nil {
			line("edge %s is gone", e.ID)
			continue
		}
		line("edge %s#%d renewed=%s", e.ID, e.Record.Incarnation, after(e.Record.Renewed))
	}
	for _, c := range c.Controls {
		kind := strings.ToLower(strings.TrimPrefix(c.Message.Kind.String(), "KIND_"))
		line("tell %s#%d %s %v", c.Edge, c.Message.Incarnation, kind, c.Message.Conns)
	}
	for _, d := range c.Departures {
		line("left %s %v after %v", d.User, d.Way, d.Latency.Round(time.Millisecond))
	}
}

func describe(u *wire.UserRecord) string {
	if u == nil {
		return "is forgotten"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "sequence=%d", u.Sequence)
	for _, ep := range u.Endpoints {
		fmt.Fprintf(&b, " %s:", ep.Device)
		if c := ep.Current; c != nil {
			fmt.Fprintf(&b, "%s#%d/%d,%v", c.Edge, c.Incarnation, c.Conn, rollcall.State(c.State))
		}
		for _, c := range ep.Stale {
			fmt.Fprintf(&b, ",stale %s#%d/%d", c.Edge, c.Incarnation, c.Conn)
		}
	}
	if u.OfflineAt != 0 {
		fmt.Fprintf(&b, " offline_at=%s", after(u.OfflineAt))
	}
	return b.String()
}
