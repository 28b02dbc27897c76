package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// Level is how bad a finding is.
type Level string

// The levels. A problem keeps the fabric from doing what it promises, a warning will do so
// one day or under load, and a note is something that could not be looked at.
const (
	OK      Level = "ok"
	Note    Level = "note"
	Warning Level = "warning"
	Problem Level = "problem"
)

// A Finding is what one check has found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// Config says what to examine.
type Config struct {
	Prefix string // of the fabric; default [subjects.DefaultPrefix]
	// System is a connection to the system account, by which servers tell how they are
	// configured; nil if there is none.
	System *nats.Conn
}

// An examination runs the checks.
type examination struct {
	Config
	nc     *nats.Conn
	js     jetstream.JetStream
	report func(Finding)
	fabric fabric.Fabric
	infos  []stream // of all streams and buckets of the fabric that are there
}

// answerTimeout is how long any one answer is waited for.
const answerTimeout = 5 * time.Second

// Examine reports what every check has found, as it finds it. It fails only if ctx ends, or
// if what report has heard last makes everything else pointless.
func Examine(ctx context.Context, nc *nats.Conn, cfg Config, report func(Finding)) error {
	cfg.Prefix = cmp.Or(cfg.Prefix, subjects.DefaultPrefix)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		return err
	}
	e := &examination{Config: cfg, nc: nc, js: js, report: report}
	for _, necessary := range []func(context.Context) error{e.server, e.servers, e.account, e.find, e.streams} {
		if err := necessary(ctx); err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	// These wait for something to happen, and so are done together.
	var waiting sync.WaitGroup
	later := make([][]Finding, 3)
	for i, check := range []func(context.Context) []Finding{e.expiry, e.keepers, e.fanouts} {
		waiting.Go(func() { later[i] = check(ctx) })
	}
	for _, check := range []func(context.Context){e.parameters, e.replicas, e.clocks, e.consumers, e.edges} {
		check(ctx)
	}
	waiting.Wait()
	for _, findings := range later {
		for _, f := range findings {
			report(f)
		}
	}
	return ctx.Err()
}

// ErrHopeless is what [Examine] ends with when it can look at nothing more.
var ErrHopeless = errors.New("doctor: nothing more can be looked at")

func (e *examination) say(check string, level Level, format string, args ...any) {
	e.report(finding(check, level, format, args...))
}

func finding(check string, level Level, format string, args ...any) Finding {
	return Finding{check, level, fmt.Sprintf(format, args...)}
}

// some names the first of many.
func some(names []string) string {
	const most = 3
	switch n := len(names); {
	case n == 0:
		return "none"
	case n <= most:
		return join(names)
	default:
		return fmt.Sprintf("%s and %d more", join(names[:most]), n-most)
	}
}
