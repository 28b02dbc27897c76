package board

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// A Ledger is a store, and who asks it.
type Ledger struct {
	// Open opens the store; it is called until it works, and once.
	Open func(ctx context.Context) (store.Store, error)
	// Account is whom the rules of access are about.
	Account string
	Zone    string // of days; default that of the rules, else UTC
}

// shownDays are how many days the page shows.
const (
	shownDays     = 30
	shownTimeline = 7
)

// history asks a ledger.
type history struct {
	Ledger
	mu     sync.Mutex
	opened store.Store
}

func (h *history) store(ctx context.Context) (store.Store, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil {
		s, err := h.Open(ctx)
		if err != nil {
			return nil, err
		}
		h.opened = s
	}
	return h.opened, nil
}

// A question is asked by a reader, of a definition and of days.
type question struct {
	store  store.Store
	reader access.Reader
	query  report.Query
}

// ask finds out who asks. Bounds are the last days; who may not see instants sees days
// that have ended.
func (h *history) ask(ctx context.Context, days int) (q question, err error) {
	if q.store, err = h.store(ctx); err != nil {
		return q, err
	}
	rules, err := q.store.Rules(ctx)
	if err != nil {
		return q, err
	}
	if q.reader, err = rules.Reader(h.Account, "", ""); err != nil {
		return q, err
	}
	zone := h.Zone
	if !q.reader.Exact() {
		zone = q.reader.Zone // another one would tell hours apart
	}
	if q.query.Zone, err = interval.LoadZone(cmp.Or(zone, q.reader.Zone, "UTC")); err != nil {
		return q, err
	}
	z, now := q.query.Zone, time.Now().UnixMilli()
	today := z.Date(now)
	q.query.Bounds = interval.Interval{From: z.Start(today - interval.Date(days-1)), To: now + 1}
	if !q.reader.Exact() {
		q.query.Bounds.To = z.Start(today)
	}
	definitions, err := q.store.Definitions(ctx)
	if err == nil && len(definitions) > 0 {
		q.query.Definition = definitions[0].Version
	}
	return q, err
}

// days are of all users that the reader may count, by day.
func (q question) days(ctx context.Context) (map[string]map[ledger.Measure]int64, error) {
	var from report.Source = q.store
	switch q.reader.Role {
	case access.Analyst:
		q.query.Minimum = q.reader.Minimum
	case access.Lead:
		from = report.Only(q.store, q.reader.Users)
	}
	return q.byDay(ctx, from)
}

func (q question) byDay(ctx context.Context, from report.Source) (map[string]map[ledger.Measure]int64, error) {
	days := make(map[string]map[ledger.Measure]int64)
	q.query.By = []report.Column{report.Day}
	for _, m := range measures {
		q.query.Measure = m
		rows, err := report.Run(ctx, from, q.query)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			day := row.Keys[0]
			if days[day] == nil {
				days[day] = make(map[ledger.Measure]int64)
			}
			days[day][m] = row.Total
		}
	}
	return days, nil
}

var measures = [...]ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active}

// Days is online time by day, in ms.
type Days struct {
	Zone  string                              `json:"zone"`
	From  string                              `json:"from"`
	To    string                              `json:"to"` // the last day
	Role  access.Role                         `json:"role"`
	Days  map[string]map[ledger.Measure]int64 `json:"days"`
	Spans []Span                              `json:"spans,omitempty"`
}

// A Span is a stretch of a session, for whoever may see instants.
type Span struct {
	Device  string         `json:"device"`
	Measure ledger.Measure `json:"measure"`
	From    int64          `json:"from_ms"`
	To      int64          `json:"to_ms"`
}

func (q question) answer(days map[string]map[ledger.Measure]int64) Days {
	z, b := q.query.Zone, q.query.Bounds
	return Days{Zone: z.Name(), From: z.Date(b.From).String(), To: z.Date(b.To - 1).String(), Role: q.reader.Role, Days: days}
}

func (b *Board) serveDays(w http.ResponseWriter, r *http.Request) {
	q, err := b.history.ask(r.Context(), shownDays)
	if err == nil {
		var days map[string]map[ledger.Measure]int64
		if days, err = q.days(r.Context()); err == nil {
			answer(w, q.answer(days))
			return
		}
	}
	b.refuseHistory(w, err)
}

func (b *Board) serveTimeline(w http.ResponseWriter, r *http.Request) {
	user := r.URL.Query().Get("user")
	if err := rollcall.CheckID(user); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	answered, err := b.history.timeline(r.Context(), user)
	if err != nil {
		b.refuseHistory(w, err)
		return
	}
	answer(w, answered)
}

// timeline is of one user. That it was asked for is noted before anything is told, and
// also if it is refused.
func (h *history) timeline(ctx context.Context, user string) (Days, error) {
	q, err := h.ask(ctx, shownTimeline)
	if err == nil {
		err = q.reader.Sees(user)
	}
	action := "board"
	if errors.Is(err, access.ErrDenied) {
		action = "denied"
	} else if err != nil {
		return Days{}, err
	}
	if noted := q.store.Audit(ctx, store.Audit{At: time.Now(), Actor: h.Account, Action: action, Subject: user, Detail: "timeline"}); noted != nil || err != nil {
		return Days{}, errors.Join(err, noted)
	}
	q.query.User = user
	days, err := q.byDay(ctx, q.store)
	if err != nil {
		return Days{}, err
	}
	answered := q.answer(days)
	if q.reader.Exact() {
		answered.Spans, err = q.spans(ctx)
	}
	return answered, err
}

func (q question) spans(ctx context.Context) (spans []Span, err error) {
	bounds := q.query.Bounds
	for x, err := range q.store.Sessions(ctx, store.Query{Definition: q.query.Definition, User: q.query.User, Bounds: bounds}) {
		if err != nil {
			return nil, err
		}
		for _, m := range measures {
			for _, i := range x.Intervals[m] {
				if i = i.Clip(bounds); !i.Empty() {
					spans = append(spans, Span{x.Device, m, i.From, i.To})
				}
			}
		}
	}
	return spans, nil
}

func (b *Board) refuseHistory(w http.ResponseWriter, err error) {
	if errors.Is(err, access.ErrDenied) {
		refuse(w, http.StatusForbidden, "denied", err.Error())
		return
	}
	b.cfg.Logger.Warn("online time", "err", err)
	refuse(w, http.StatusServiceUnavailable, "unavailable", "the ledger does not answer: "+err.Error())
}
