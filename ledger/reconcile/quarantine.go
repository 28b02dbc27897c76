package reconcile

import (
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/report"
)

// Rejected is what the quarantine is told of the differences of one day or session; here
// and there are the versions compared. It names the session and holds none: releasing it
// marks it as dealt with, and changes no figure.
func Rejected(of []Difference, here, there string) ledger.Rejected {
	first := of[0]
	what := "on " + first.Date.String()
	if first.Session != "" {
		what = "of the session"
	}
	var figures []string
	for _, d := range of {
		figures = append(figures, fmt.Sprintf("%s %s s and %s s", d.Measure, report.Seconds(d.Here), report.Seconds(d.There)))
	}
	return ledger.Rejected{
		Rule: ledger.RuleRebuilt, At: time.UnixMilli(first.At).UTC(), Source: there,
		Reason: fmt.Sprintf("%s, under %s and %s: %s", what, here, there, strings.Join(figures, "; ")),
		Event:  &ledger.Event{At: first.At, User: first.User, Device: first.Device, Session: first.Session},
	}
}
