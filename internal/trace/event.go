package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
)

// Kind is what happens in an [Event].
type Kind string

// The kinds of events.
const (
	Open       Kind = "open"       // the device connects; replaces a connection that was never ended
	Close      Kind = "close"      // it leaves and the edge knows at once
	Silent     Kind = "silent"     // from here on it says nothing; nobody is told
	EdgeCrash  Kind = "edge_crash" // the edge dies with everything that it holds
	Foreground Kind = "foreground"
	Background Kind = "background"
	Active     Kind = "active"
	Idle       Kind = "idle"
)

// Event is one row of a trace.
type Event struct {
	At     time.Duration // since the start
	User   string        // empty for EdgeCrash
	Device string
	Edge   string
	Kind   Kind
}

// ErrFormat is returned, wrapped with line and reason, for a file that is no trace.
var ErrFormat = errors.New("trace: wrong format")

var header = []string{"t", "user", "device", "edge", "event"}

// Read reads a trace: CSV with the columns t, user, device, edge, event, in order
// of t, which counts seconds.
func Read(r io.Reader) ([]Event, error) {
	rows := csv.NewReader(skipMark(r))
	rows.FieldsPerRecord = -1
	first, err := rows.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%w: the file is empty", ErrFormat)
	}
	if err != nil || !slices.Equal(first, header) {
		return nil, fmt.Errorf("%w: the first line must be %s, not %.60q", ErrFormat, strings.Join(header, ","), strings.Join(first, ","))
	}
	rows.FieldsPerRecord = len(header)
	var events []Event
	crashed := make(map[string]bool)
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err) // says the line itself
		}
		line, _ := rows.FieldPos(0)
		e, err := parse(row)
		switch {
		case err != nil:
		case len(events) > 0 && e.At < events[len(events)-1].At:
			err = errors.New("rows must be in order of t")
		case crashed[e.Edge]:
			err = fmt.Errorf("edge %q has crashed before and does not come back", e.Edge)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, line, err)
		}
		crashed[e.Edge] = e.Kind == EdgeCrash
		events = append(events, e)
	}
}

// skipMark passes over the byte order mark that spreadsheets write.
func skipMark(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		b.Discard(len(mark))
	}
	return b
}

// farthest keeps times far from overflow.
const farthest = 10 * 366 * 24 * time.Hour

func parse(row []string) (Event, error) {
	seconds, err := strconv.ParseFloat(row[0], 64)
	if err != nil || !(seconds >= 0) {
		return Event{}, fmt.Errorf("t %q is not a number of seconds", row[0])
	}
	if seconds > farthest.Seconds() {
		return Event{}, fmt.Errorf("t %s is more than %.0f seconds; t counts from the start of the trace", row[0], farthest.Seconds())
	}
	e := Event{time.Duration(seconds * float64(time.Second)), row[1], row[2], row[3], Kind(row[4])}
	if err := rollcall.CheckID(e.Edge); err != nil {
		return e, fmt.Errorf("edge: %w", err)
	}
	switch e.Kind {
	case EdgeCrash:
		return e, nil
	case Open, Close, Silent, Foreground, Background, Active, Idle:
		return e, rollcall.Endpoint{User: e.User, Device: e.Device}.Check()
	}
	return e, fmt.Errorf("unknown event %q", row[4])
}

// Users lists the users of a trace in order of appearance.
func Users(events []Event) []string {
	var users []string
	seen := make(map[string]bool)
	for _, e := range events {
		if e.User != "" && !seen[e.User] {
			seen[e.User] = true
			users = append(users, e.User)
		}
	}
	return users
}
