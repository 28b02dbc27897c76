package importer

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// kinds are the events of a history by name.
var kinds = map[string]ledger.Kind{
	"open": ledger.KindOpen, "beat": ledger.KindBeat, "foreground": ledger.KindForeground, "background": ledger.KindBackground,
	"active": ledger.KindActive, "idle": ledger.KindIdle, "close": ledger.KindClose, "timeout": ledger.KindTimeout,
}

// columns of a CSV, in the order that a file without a header has.
var columns = []string{"time", "user", "device", "event", "seq", "client", "version", "channel", "region"}

const required = 4

// A Format reads the lines of one file. The zero Format knows the columns of a file without
// a header.
type Format struct {
	order []int // the place of each of columns, -1 if absent
}

// Header takes the first line and says whether it was a header.
func (f *Format) Header(line string) (bool, error) {
	names := strings.Split(strings.ToLower(strings.TrimPrefix(line, "\ufeff")), ",")
	at := map[string]int{}
	for k, name := range names {
		at[strings.Trim(strings.TrimSpace(name), `"`)] = k
	}
	if _, ok := at["time"]; !ok {
		return false, nil
	}
	f.order = nil
	for k, name := range columns {
		place, ok := at[name]
		if !ok {
			if place = -1; k < required {
				return true, fmt.Errorf("the header has no column %q", name)
			}
		}
		f.order = append(f.order, place)
	}
	return true, nil
}

// Parse reads a line: JSON if it starts with a brace, else CSV. Of a line that is refused
// the event has what could be read.
func (f *Format) Parse(line string) (ledger.Event, error) {
	var fields [9]string
	var err error
	if strings.HasPrefix(line, "{") {
		err = parseJSON(line, &fields)
	} else {
		err = f.split(line, &fields)
	}
	e := ledger.Event{
		User: fields[1], Device: fields[2],
		Client: ledger.Client{Type: fields[5], Version: fields[6], Channel: fields[7], Region: fields[8]},
	}
	for k := 1; k < len(fields) && err == nil; k++ {
		if k != 3 && k != 4 {
			err = checkText(columns[k], fields[k], k < required)
		}
	}
	if err != nil {
		return e, err
	}
	if e.At, err = parseTime(fields[0]); err != nil {
		return e, err
	}
	if e.Kind = kinds[fields[3]]; e.Kind == 0 {
		return e, fmt.Errorf("event %q is none of open, beat, foreground, background, active, idle, close, timeout", fields[3])
	}
	if fields[4] != "" {
		if e.Sequence, err = strconv.ParseUint(fields[4], 10, 64); err != nil {
			return e, fmt.Errorf("seq %q is no whole number", fields[4])
		}
	}
	return e, nil
}

func (f *Format) split(line string, fields *[9]string) error {
	var cells []string
	if strings.Contains(line, `"`) {
		r := csv.NewReader(strings.NewReader(line))
		r.FieldsPerRecord = -1
		var err error
		if cells, err = r.Read(); err != nil {
			var detail *csv.ParseError
			if errors.As(err, &detail) {
				err = detail.Err
			}
			return err
		}
	} else {
		cells = strings.Split(line, ",")
	}
	if f.order == nil && len(cells) > len(fields) {
		return fmt.Errorf("%d columns, at most %d", len(cells), len(fields))
	}
	for k := range fields {
		place := k
		if f.order != nil {
			place = f.order[k]
		}
		if place >= 0 && place < len(cells) {
			fields[k] = strings.TrimSpace(cells[place])
		}
	}
	if len(cells) < required {
		return fmt.Errorf("%d columns, at least %d: time,user,device,event", len(cells), required)
	}
	return nil
}

func parseJSON(line string, fields *[9]string) error {
	var l struct {
		Time                             json.RawMessage
		User, Device, Event              string
		Seq                              json.Number
		Client, Version, Channel, Region string
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return fmt.Errorf("no JSON event: %w", err)
	}
	at := string(l.Time)
	if strings.HasPrefix(at, `"`) {
		if err := json.Unmarshal(l.Time, &at); err != nil {
			return fmt.Errorf("no JSON event: %w", err)
		}
	}
	*fields = [9]string{at, l.User, l.Device, l.Event, string(l.Seq), l.Client, l.Version, l.Channel, l.Region}
	return nil
}

const maxText = 256

func checkText(name, text string, required bool) error {
	switch {
	case text == "" && required:
		return fmt.Errorf("no %s", name)
	case len(text) > maxText:
		return fmt.Errorf("%s longer than %d bytes", name, maxText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s %q is no printable UTF-8", name, text)
	}
	return nil
}

// From here on a number is milliseconds, not seconds: the year 5138 or 1973.
const millis = 1e11

// parseTime reads RFC 3339, or seconds or milliseconds since the Unix epoch.
func parseTime(text string) (int64, error) {
	if text == "" {
		return 0, errors.New("no time")
	}
	var at int64
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) {
		if math.Abs(n) < millis {
			n *= 1000
		}
		if n = math.Round(n); n < float64(interval.Earliest) || n >= float64(interval.Latest) {
			return 0, fmt.Errorf("time %s out of range", text)
		}
		at = int64(n)
	} else {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return 0, fmt.Errorf("time %q is neither RFC 3339 with a zone nor a number of seconds", text)
		}
		at = t.Round(time.Millisecond).UnixMilli()
	}
	if at < interval.Earliest || at >= interval.Latest {
		return 0, fmt.Errorf("time %s out of range", text)
	}
	return at, nil
}
