package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Config is what a builder needs.
type Config struct {
	Definition ledger.Definition
	// Remember is how long after its start a session may still go on, and so how long
	// one that has ended is kept, packed. After it the same id would be another session.
	// The default is the definition's limit, since a session that goes on for longer
	// breaks that, or a day if there is none.
	Remember time.Duration
	// Session takes rows: final ones from [Builder.Advance], others from
	// [Builder.Publish]. A row without intervals withdraws what was handed out before.
	// A final row may follow another one, with a higher revision, if a session goes on
	// that had ended. For speed, rows share no memory with the builder.
	Session func(row ledger.Session, final bool)
	// Reject takes what breaks a rule; required.
	Reject func(ledger.Rejected)
}

// ErrConfig is a configuration that makes no sense; the wrapping says why.
var ErrConfig = errors.New("session: invalid configuration")

const (
	day = 24 * time.Hour

	maxLabels = 255
	maxEpochs = 1 << 16
)

// A Builder makes sessions. Use [New]. It is not safe for concurrent use.
type Builder struct {
	rules
	lateness int64
	names    map[string]uint8 // of labels
	measures []ledger.Measure // by place in names
	session  func(ledger.Session, bool)
	reject   func(ledger.Rejected)

	watermark, floor int64
	swept            int64 // the floor of the last sweep
	sessions         map[ledger.SessionKey]*session
	clients          map[ledger.Client]*ledger.Client
	dirty            []*session
}

// A session is the events that may still change and what the others came to.
type session struct {
	ledger.SessionKey
	client  *ledger.Client
	told    int64   // the epoch that the client is of
	epochs  []int64 // that its entries refer to
	pending         // all at or above the floor of the last sweep
	state   *state  // nil while packed
	packed  []byte  // of one that has ended
	dirty   bool    // its row has changed since the last Publish
	shown   bool    // a row was handed out, so that it may have to be withdrawn
	gone    bool    // forgotten
}

// A Handle is a session that beats are added to without looking it up. It stays
// valid; of a session that was forgotten it makes a new one.
type Handle struct{ s *session }

// New checks the configuration.
func New(c Config) (*Builder, error) {
	d := c.Definition
	if err := d.Gaps.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Remember == 0 {
		c.Remember = d.Limit
	}
	if c.Remember == 0 {
		c.Remember = day
	}
	switch {
	case d.Idle < 0 || d.Limit < 0 || d.Lateness < 0 || c.Remember < 0:
		return nil, fmt.Errorf("%w: negative duration", ErrConfig)
	case len(d.Labels) > maxLabels:
		return nil, fmt.Errorf("%w: %d labels, at most %d", ErrConfig, len(d.Labels), maxLabels)
	case c.Reject == nil || c.Session == nil:
		return nil, fmt.Errorf("%w: nobody takes sessions or refusals", ErrConfig)
	}
	b := &Builder{
		rules: rules{
			cap: d.Gaps.Cap.Milliseconds(), grace: d.Gaps.Grace.Milliseconds(), idle: d.Idle.Milliseconds(),
			limit: d.Limit.Milliseconds(), horizon: c.Remember.Milliseconds(), labels: len(d.Labels),
		},
		lateness: d.Lateness.Milliseconds(), names: make(map[string]uint8),
		session: c.Session, reject: c.Reject,
		watermark: interval.Earliest, floor: interval.Earliest, swept: interval.Earliest,
		sessions: make(map[ledger.SessionKey]*session), clients: make(map[ledger.Client]*ledger.Client),
	}
	for i, label := range d.Labels {
		b.names[label] = uint8(i + 1)
		b.measures = append(b.measures, ledger.Measure(label))
	}
	return b, nil
}

// Add takes an event, in any order.
func (b *Builder) Add(e ledger.Event) {
	if reason := invalid(e); reason != "" {
		b.refuse(ledger.RuleInput, reason, e)
		return
	}
	if e.At < b.floor {
		b.refuse(ledger.RuleLate, "older than the allowed lateness", e)
		return
	}
	s := b.find(ledger.SessionKey{User: e.User, Device: e.Device, ID: e.Session})
	epoch, ok := s.place(e.Epoch)
	if !ok {
		b.refuse(ledger.RuleInput, "too many epochs", e)
		return
	}
	b.learn(s, e)
	says := uint8(0)
	for _, flag := range []struct {
		on  bool
		bit uint8
	}{
		{e.Stated, saysState}, {e.Foreground && e.Stated, saysForeground}, {e.Active && e.Stated, saysActive},
		{e.Kind != ledger.KindBeat || e.Activity != "", saysLabel},
	} {
		if flag.on {
			says |= flag.bit
		}
	}
	b.insert(s, entry{at: e.At, seq: e.Sequence, epoch: epoch, kind: e.Kind, says: says, label: b.names[e.Activity]})
}

func invalid(e ledger.Event) string {
	switch {
	case e.At < interval.Earliest || e.At >= interval.Latest:
		return "time out of range"
	case e.User == "" || e.Session == "":
		return "no user or session"
	case e.Kind < ledger.KindOpen || e.Kind > ledger.KindLogout:
		return "unknown kind"
	}
	return ""
}

func (b *Builder) refuse(rule, reason string, e ledger.Event) {
	b.reject(ledger.Rejected{Rule: rule, Reason: reason, At: time.UnixMilli(e.At).UTC(), Event: &e})
}

// Find returns the handle of a session, which need not have begun.
func (b *Builder) Find(user, device, id string) Handle {
	return Handle{b.find(ledger.SessionKey{User: user, Device: device, ID: id})}
}

// Beat adds a heartbeat without a sequence number, with flags as the device's word. It
// is [Builder.Add] for those who add many.
func (b *Builder) Beat(h *Handle, epoch, at int64, flags uint8) {
	s := h.s
	if s.gone {
		s = b.find(s.SessionKey)
		h.s = s
	}
	if at < b.floor || at >= interval.Latest {
		b.Add(s.beat(epoch, at, flags))
		return
	}
	place, ok := s.place(epoch)
	if !ok {
		b.Add(s.beat(epoch, at, flags))
		return
	}
	b.insert(s, entry{at: at, epoch: place, kind: ledger.KindBeat, says: saysState | flags&(saysForeground|saysActive)})
}

func (s *session) beat(epoch, at int64, flags uint8) ledger.Event {
	return ledger.Event{
		At: at, User: s.User, Device: s.Device, Session: s.ID, Epoch: epoch, Kind: ledger.KindBeat, Stated: true,
		Foreground: flags&FlagForeground != 0, Active: flags&FlagActive != 0,
	}
}

func (b *Builder) find(k ledger.SessionKey) *session {
	s := b.sessions[k]
	if s == nil {
		s = &session{SessionKey: k, client: b.client(ledger.Client{}), state: new(state)}
		b.sessions[k] = s
	}
	return s
}

// place finds an epoch among those of the session.
func (s *session) place(epoch int64) (uint16, bool) {
	for i := len(s.epochs) - 1; i >= 0; i-- {
		if s.epochs[i] == epoch {
			return uint16(i), true
		}
	}
	if len(s.epochs) == maxEpochs {
		return 0, false
	}
	s.epochs = append(s.epochs, epoch)
	return uint16(len(s.epochs) - 1), true
}

// learn keeps what the newest epoch says of the client; if an epoch says different
// things, which one counts must not depend on the order.
func (b *Builder) learn(s *session, e ledger.Event) {
	if e.Client == (ledger.Client{}) || e.Epoch < s.told {
		return
	}
	if e.Epoch > s.told || after(e.Client, *s.client) {
		s.client, s.told = b.client(e.Client), e.Epoch
	}
}

func after(a, b ledger.Client) bool {
	return slices.Compare([]string{a.Type, a.Version, a.Channel, a.Region}, []string{b.Type, b.Version, b.Channel, b.Region}) > 0
}

// client keeps each description once: there are few.
func (b *Builder) client(c ledger.Client) *ledger.Client {
	if known := b.clients[c]; known != nil {
		return known
	}
	b.clients[c] = &c
	return &c
}

func (b *Builder) insert(s *session, e entry) {
	if s.insert(e) && !s.dirty {
		s.dirty = true
		b.dirty = append(b.dirty, s)
	}
}

// Watermark is how far time has come.
func (b *Builder) Watermark() int64 { return b.watermark }

// Sessions is how many sessions the builder knows, those included that have ended.
func (b *Builder) Sessions() int { return len(b.sessions) }

// Publish hands out the rows that have changed since the last call.
func (b *Builder) Publish() {
	for _, s := range b.dirty {
		if s.dirty && !s.gone {
			if row, ok := b.row(s); ok || s.shown {
				s.shown = true
				b.session(row, false)
			}
		}
		s.dirty = false
	}
	b.dirty = b.dirty[:0]
}
