package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall/docs/check"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

var overheard = flag.String("overheard", "", "write the messages of the contract's test to this file")

// Everything that clients and fabric say to each other is as the contract's document
// says, and all that the document describes is said.
func TestContract(t *testing.T) {
	document, err := check.Read("../docs/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var examples []check.Example
	for _, page := range []string{"../docs/contract.md", "../docs/natsgate.md"} {
		more, err := check.Examples(page)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, more...)
	}
	lab.Bubble(t, func(t *testing.T) {
		s := newContractScene(t)
		s.policiesDecide()
		s.theApplicationDecides()
		s.theLedgerCounts()
		s.devicesSpeak()
		h := newHearing(t, document, s.names)
		for _, m := range s.tap.all() {
			h.hear(m)
		}
		h.wantAllSeen()
		h.wantReal(examples)
		h.write(*overheard)
	})
}

// A tap hears everything that is said on the fabric's subjects and in inboxes, in
// order.
type tap struct {
	nc    *nats.Conn
	heard chan *nats.Msg
}

func newTap(f *e2e.Fabric) *tap {
	f.T.Helper()
	w := &tap{lab.Connect(f.T, f.Server.NewLink()), make(chan *nats.Msg, 1<<17)}
	for _, subject := range []string{f.Names.Prefix() + ".>", "_INBOX.>"} {
		if _, err := w.nc.ChanSubscribe(subject, w.heard); err != nil {
			f.T.Fatal(err)
		}
	}
	if err := w.nc.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return w
}

// all ends the tap.
func (w *tap) all() (messages []*nats.Msg) {
	w.nc.Close()
	for len(w.heard) > 0 {
		messages = append(messages, <-w.heard)
	}
	return messages
}

// contractScene is a fabric in which clients do everything that they can.
type contractScene struct {
	*e2e.Fabric
	t      *testing.T
	names  subjects.Names
	tap    *tap
	nc     *nats.Conn
	keeper *e2e.Keeper
	fanout *e2e.Fanout
	phone  *e2e.Device // ann's
}

func newContractScene(t *testing.T) *contractScene {
	f := e2e.New(t, e2e.Options{Shards: 2})
	s := &contractScene{Fabric: f, t: t, names: f.Names.Names, tap: newTap(f), nc: lab.Connect(t, f.Server.NewLink())}
	s.keeper = f.StartKeeper()
	s.fanout = f.StartFanout()
	return s
}

// ask sends a request and fails unless it is answered, or refused with this code.
func (s *contractScene) ask(subject, body string, want subjects.Code) {
	s.t.Helper()
	m, err := s.nc.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
	if got := m.Header.Get(micro.ErrorCodeHeader); got != string(want) {
		s.t.Errorf("%s %.80s: %q (%s), want %q", subject, body, got, m.Header.Get(micro.ErrorHeader), want)
	}
	time.Sleep(time.Second) // what follows from it is told
}

func (s *contractScene) request(op subjects.Op, body string, want subjects.Code) {
	s.t.Helper()
	s.ask(s.names.Request(op, "vera"), body, want)
}

func (s *contractScene) policy(op subjects.PolicyOp, user, body string, want subjects.Code) {
	s.t.Helper()
	s.ask(s.names.Policy(op, user), body, want)
}

func (s *contractScene) policiesDecide() {
	g := s.StartEdge("g1")
	s.phone = s.Connect(g, "ann", "phone")
	say(s.t, s.phone, edge.State{Foreground: true, Active: true, Activity: "writing"})
	bob := s.Connect(g, "bob", "phone")
	s.StartViewer("olga", "ann", "bob", "nobody")
	s.At(60 * second)
	s.request(subjects.OpRefresh, "", "")
	s.request(subjects.OpSubscribe, `{"targets":["ann","bob","zoe"]}`, "")
	say(s.t, s.phone, idle)
	bob.Close()
	s.At(120 * second)
	s.request(subjects.OpGet, `{"targets":["bob"]}`, "")
	s.changePolicies()
	s.request(subjects.OpUnsubscribe, `{"targets":["bob"]}`, "")
	s.request(subjects.OpRefresh, "", "")
	s.Connect(g, "bob", "phone")
	s.Connect(g, "дора", "phone")
	s.ask(s.names.Request(subjects.OpGet, "дора"), `{"targets":["дора","ann"]}`, "")
	s.refusals()
	s.At(300 * second)
	s.stalls()
	s.request(subjects.OpUnsubscribe, "", "")
	s.request(subjects.OpSubscribe, `{"targets":["ann","bob"]}`, "")
}

// changePolicies carries out every operation, and has vera see the outcome.
func (s *contractScene) changePolicies() {
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, row := range []struct {
		op   subjects.PolicyOp
		user string
		body string
	}{
		{subjects.PolicyGet, "ann", ""},
		{subjects.PolicyStatus, "ann", `{"status":{"availability":"dnd","text":"in a meeting","priority":10,"until":"` + until + `"}}`},
		{subjects.PolicyStatus, "ann", `{"status":{"availability":"away"}}`},
		{subjects.PolicyContact, "ann", `{"users":["vera","olga"]}`},
		{subjects.PolicySet, "ann", `{"everyone":"coarse","member":"exact"}`},
		{subjects.PolicyUncontact, "ann", `{"users":["vera"]}`},
		{subjects.PolicyAllow, "ann", `{"users":["vera"],"granularity":"hidden"}`},
		{subjects.PolicyReset, "ann", `{"users":["vera"]}`},
		{subjects.PolicyBlock, "ann", `{"users":["vera"]}`},
		{subjects.PolicyUnblock, "ann", `{"users":["vera"]}`},
		{subjects.PolicyJoin, "ann", `{"groups":["chess"]}`},
		{subjects.PolicyJoin, "vera", `{"groups":["chess"]}`},
		{subjects.PolicyGet, "ann", `{}`},
		{subjects.PolicyLeave, "vera", `{"groups":["chess"]}`},
		{subjects.PolicySet, "ann", `{"default":["everyone"]}`},
		{subjects.PolicyClear, "ann", `{"priority":10}`},
		{subjects.PolicyClear, "ann", ``},
		{subjects.PolicyStatus, "ann", `{"status":{"availability":"invisible"}}`},
		{subjects.PolicyForget, "ann", ""},
		{subjects.PolicySet, "bob", `{"everyone":"coarse"}`}, // who is offline
		{subjects.PolicyForget, "bob", ""},
	} {
		s.policy(row.op, row.user, row.body, "")
	}
}

// refusals asks in every way that is refused, whatever the state of the fabric.
func (s *contractScene) refusals() {
	many := func(field string, n int, id string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"%s%05d"`, id, i)
		}
		return `{"` + field + `":[` + strings.Join(all, ",") + `]}`
	}
	for _, body := range []string{`{`, `[]`, `{"targets":"ann"}`, "{\"targets\":[\"\xff\"]}"} {
		s.request(subjects.OpSubscribe, body, subjects.CodeInvalidRequest)
	}
	s.ask("presence.req.get.a=b", `{"targets":["ann"]}`, subjects.CodeInvalidRequest)
	s.request(subjects.OpGet, `{"targets":["ann",""]}`, subjects.CodeInvalidID)
	s.request(subjects.OpSubscribe, "", subjects.CodeNoTargets)
	s.request(subjects.OpSubscribe, many("targets", subjects.MaxTargets+1, "t"), subjects.CodeTooManyTargets)
	for _, body := range []string{`{"users":["eve"],"for":"ever"}`, `{"user":["eve"]}`, `{}`, `{"users":["eve"],"granularity":"absent"}`} {
		s.policy(subjects.PolicyBlock, "ann", body, subjects.CodeInvalidRequest)
	}
	s.policy(subjects.PolicyStatus, "ann", `{"status":{"availability":"away","until":"1999-12-31T23:59:59Z"}}`, subjects.CodeInvalidRequest)
	s.policy(subjects.PolicyJoin, "ann", many("groups", subjects.MaxGroups+1, "g"), subjects.CodeTooMany)
	// The answer writes six bytes for each of these characters.
	long := strings.Repeat("<", 120)
	s.policy(subjects.PolicyContact, "max", many("users", 6000, long), "")
	s.policy(subjects.PolicyBlock, "max", many("users", 6000, long), subjects.CodeTooLarge)
	s.policy(subjects.PolicyForget, "max", "", "")
}

// stalls interrupts the feed in both ways.
func (s *contractScene) stalls() {
	s.keeper.Kill()
	s.At(330 * second)
	s.keeper = s.StartKeeper()
	s.At(360 * second)
	pulse := new(wire.Pulse)
	pulses, err := s.nc.SubscribeSync(s.names.Pulse(0))
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := pulses.NextMsg(time.Minute)
	if err != nil || subjects.Decode(m.Data, pulse) != nil {
		s.t.Fatal("no pulse", err)
	}
	pulse.Revision += 1000 // of records that never come
	body, err := subjects.Encode(pulse)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.nc.Publish(s.names.Pulse(0), body); err != nil {
		s.t.Fatal(err)
	}
	s.At(s.Now() + 20*second)
	s.keeper.Kill()
	s.keeper = s.StartKeeper() // its records are others
	s.At(s.Now() + 30*second)
}

// theApplicationDecides from the next fanout on. What it says of eve is one too many,
// and the host's logger panics over it: a defect that ends as an internal error.
func (s *contractScene) theApplicationDecides() {
	s.fanout.Kill()
	s.fanout = s.StartFanoutWith(fanout.Config{AskSights: true, Logger: slog.New(touchy{slog.DiscardHandler})})
	sights := map[string]string{"ann": "exact", "bob": "coarse", "mum": "hidden"}
	application, err := s.nc.Subscribe(s.names.Sight(), func(m *nats.Msg) {
		q, err := subjects.DecodeSightQuestion(m.Data)
		if err != nil {
			s.t.Error(err)
		}
		var answer []string
		for _, target := range q.Targets {
			g := sights[target]
			if g == "" {
				g = "absent"
			}
			answer = append(answer, g)
		}
		if q.Viewer == "eve" {
			answer = append(answer, "exact")
		}
		body, _ := json.Marshal(map[string][]string{"sights": answer})
		if err := m.Respond(body); err != nil {
			s.t.Error(err)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.At(s.Now() + 30*second)
	s.request(subjects.OpSubscribe, `{"targets":["ann","bob","mum","zoe"]}`, "")
	s.phone.Close()
	s.At(s.Now() + 30*second)
	sights["ann"] = "absent"
	if err := s.nc.Publish(s.names.SightChanged(), []byte(`{"target":"ann"}`)); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(second)
	s.ask(s.names.Request(subjects.OpGet, "eve"), `{"targets":["ann"]}`, subjects.CodeInternal)

	// Now it listens and says nothing: the first request waits, and so do the others.
	if err := application.Unsubscribe(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.nc.Subscribe(s.names.Sight(), func(*nats.Msg) {}); err != nil {
		s.t.Fatal(err)
	}
	for range fanout.DefaultRequestBurst + 10 {
		if err := s.nc.PublishRequest(s.names.Request(subjects.OpGet, "mob"), nats.NewInbox(), []byte(`{"targets":["ann"]}`)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.At(s.Now() + 30*second)
}

// theLedgerCounts who is online and active: of three users, one has closed and one has
// its app in the background.
func (s *contractScene) theLedgerCounts() {
	s.StartLedger(&e2e.Database{Store: openLedger(s.t)}, live.Config{Zones: []string{"Europe/Berlin"}})
	g := s.StartEdge("g2")
	s.At(s.Now() + 30*second)
	s.Connect(g, "cid", "phone")
	say(s.t, s.Connect(g, "dot", "phone"), edge.State{})
	s.Connect(g, "dot", "tablet")
	s.Connect(g, "eva", "phone").Close()
	s.At(s.Now() + 600*second)
	s.ask(s.names.Stats(), "", "")
	s.ask(s.names.KeeperStats(), "", "")
}

// device sends an operation of a device; the answer is a refusal with the code, if there
// is to be one.
func (s *contractScene) device(op subjects.DeviceOp, user, device, body string) (answer subjects.DeviceOpenAnswer, code subjects.DeviceCode) {
	s.t.Helper()
	m, err := s.nc.Request(s.names.Device(op, user, device), []byte(body), 10*time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		s.t.Fatalf("%s of %s: %v", op, user, err)
	}
	time.Sleep(time.Second)
	return answer, deviceCode(m.Data)
}

func deviceCode(body []byte) subjects.DeviceCode {
	var refusal subjects.DeviceRefusal
	if json.Unmarshal(body, &refusal) != nil || refusal.Error == nil {
		return ""
	}
	return refusal.Error.Code
}

// devicesSpeak over NATS at two gates that have room for a handful.
func (s *contractScene) devicesSpeak() {
	for _, id := range []string{"gate-1", "gate-2"} {
		s.StartGate(id, door.Config{MaxSessions: 2, MaxDevices: 1})
	}
	const open = `{"device": "phone", "foreground": true, "active": true, "client": {"type": "app", "version": "1.2.0"}}`
	kim, _ := s.device(subjects.DeviceOpen, "kim", "phone", open)
	session := fmt.Sprintf(`{"sessionId": %q, "sessionEpoch": %d, `, kim.SessionID, kim.SessionEpoch)
	for _, row := range []struct {
		op   subjects.DeviceOp
		body string
		want subjects.DeviceCode
	}{
		{subjects.DeviceHeartbeat, session + `"seq": 1, "active": false}`, ""},
		{subjects.DeviceHeartbeat, session + `"seq": 2, "later": {"x": 1}}`, ""},
		{subjects.DeviceHeartbeat, session + `"seq": 2}`, ""},
		{subjects.DeviceHeartbeat, session + `"seq": 3, "foreground": true, "active": true, "activity": "writing"}`, ""},
		{subjects.DeviceHeartbeat, session + `"seq": 0}`, subjects.DeviceInvalid},
		{subjects.DeviceHeartbeat, session + `"seq": "4"}`, subjects.DeviceInvalid},
		{subjects.DeviceHeartbeat, `{"seq": 4}`, subjects.DeviceInvalid},
		{subjects.DeviceHeartbeat, ``, subjects.DeviceInvalid},
		{subjects.DeviceState, session + `"foreground": true, "active": false, "later": 1}`, ""},
		{subjects.DeviceState, session + `"foreground": true}`, subjects.DeviceInvalid},
		{subjects.DeviceOpen, `{"foreground": 1, "active": true}`, subjects.DeviceInvalid},
		{subjects.DeviceOpen, `{"device": "tablet", "foreground": true, "active": true}`, subjects.DeviceForbidden},
		{subjects.DeviceOpen, `{"foreground": true, "active": true, "later": "` + strings.Repeat("x", 20_000) + `"}`, subjects.DeviceTooLarge},
		{subjects.DeviceClose, session + `"reason": "boredom"}`, subjects.DeviceInvalid},
		{subjects.DeviceClose, session + `"reason": "logout"}`, ""},
		{subjects.DeviceClose, session + `"reason": "goodbye"}`, subjects.DeviceUnregistered},
		{subjects.DeviceHeartbeat, session + `"seq": 4}`, subjects.DeviceUnregistered},
	} {
		if _, code := s.device(row.op, "kim", "phone", row.body); code != row.want {
			s.t.Errorf("%s %.80s: %q, want %q", row.op, row.body, code, row.want)
		}
	}
	// Which gate NATS asks is left open: a user has room for one device at each, and each has
	// room for two.
	for n := range 10 {
		if _, code := s.device(subjects.DeviceOpen, "lea", fmt.Sprint("phone-", n), `{"foreground": false, "active": false}`); code != "" && code != subjects.DeviceRateLimited {
			s.t.Errorf("a device too many: %q", code)
		}
	}
	for n := range 10 {
		if _, code := s.device(subjects.DeviceOpen, fmt.Sprint("mia-", n), "phone", `{"foreground": false, "active": false}`); code != "" && code != subjects.DeviceUnavailable {
			s.t.Errorf("a session too many: %q", code)
		}
	}
}

// touchy is a handler of a logger that does not bear an answer of the wrong length.
type touchy struct{ slog.Handler }

func (touchy) Enabled(context.Context, slog.Level) bool { return true }

func (touchy) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && r.Level == slog.LevelWarn && strings.Contains(err.Error(), "2 sights for 1 target") {
			panic(err)
		}
		return true
	})
	return nil
}

// A hearing holds real messages against the document.
type hearing struct {
	t        *testing.T
	document *check.Document
	internal []string            // beginnings of subjects that are not for clients
	open     map[string]question // by reply subject
	seen     map[string]int      // operations, messages and codes
	said     map[string][]any    // by message
	lines    []string
}

// A question is a request that is not answered yet.
type question struct {
	subject   string
	operation *check.Operation
	fault     error // what its schema says against it
}

func newHearing(t *testing.T, d *check.Document, names subjects.Names) *hearing {
	h := &hearing{t: t, document: d, open: make(map[string]question), seen: make(map[string]int), said: make(map[string][]any)}
	h.internal = []string{"$KV."} // records, which JetStream sends to inboxes under their own subject
	for _, kind := range []string{"log", "beats", "edge", "pulse", "peers", "peer", "gate"} {
		h.internal = append(h.internal, names.Prefix()+"."+kind+".")
	}
	return h
}

func (h *hearing) hear(m *nats.Msg) {
	h.t.Helper()
	isOf := func(prefix string) bool { return strings.HasPrefix(m.Subject, prefix) }
	found := h.document.Match(m.Subject)
	switch q, answers := h.open[m.Subject]; {
	case answers:
		delete(h.open, m.Subject)
		h.hearAnswer(q, m)
	case isOf("_INBOX."):
		if m.Header.Get(micro.ErrorCodeHeader) != "" {
			h.t.Errorf("a refusal that nobody asked for: %v", m.Header)
		}
	case slices.ContainsFunc(h.internal, isOf):
		if len(found) > 0 {
			h.t.Errorf("%s is not for clients, and the document has %s", m.Subject, found[0].Name)
		}
	case len(found) != 1:
		h.t.Errorf("%s belongs to %d operations", m.Subject, len(found))
	default:
		h.hearOperation(found[0], m)
	}
}

func (h *hearing) hearOperation(o *check.Operation, m *nats.Msg) {
	h.t.Helper()
	message, err := check.OneOf(o.Messages, m.Header, m.Data)
	if (len(o.Replies) > 0) != (m.Reply != "") {
		h.t.Errorf("%s: reply subject %q, the document has %d answers", m.Subject, m.Reply, len(o.Replies))
	}
	if m.Reply != "" {
		h.open[m.Reply] = question{m.Subject, o, err}
	}
	switch {
	case err == nil:
		h.see(o, message, m)
	case m.Reply == "" || o.Action == "receive":
		h.t.Errorf("%s %.200s: %v", m.Subject, m.Data, err) // nobody can refuse it
	}
}

// faults are the codes by which a request is refused that does not validate.
var faults = []subjects.Code{subjects.CodeInvalidRequest, subjects.CodeInvalidID, subjects.CodeNoTargets, subjects.CodeTooManyTargets, subjects.CodeTooMany}

func (h *hearing) hearAnswer(q question, m *nats.Msg) {
	h.t.Helper()
	message, err := check.OneOf(q.operation.Replies, m.Header, m.Data)
	if err != nil {
		h.t.Errorf("answer to %s: %.200s: %v", q.subject, m.Data, err)
		return
	}
	code, inBody := m.Header.Get(micro.ErrorCodeHeader), deviceCode(m.Data)
	if q.fault != nil && !slices.Contains(faults, subjects.Code(code)) && inBody != subjects.DeviceInvalid {
		h.t.Errorf("%s does not validate (%v), and the answer was %q", q.subject, q.fault, cmp.Or(code, string(inBody)))
	}
	if code != "" {
		h.seen["code "+code]++
	}
	if inBody != "" {
		h.seen["device code "+string(inBody)]++
	}
	h.seen["answer on "+q.subject]++
	h.see(q.operation, message, m)
}

// see takes note of a message that is as the document says.
func (h *hearing) see(o *check.Operation, message *check.Message, m *nats.Msg) {
	h.seen["operation "+o.Name]++
	h.seen["message "+message.Name]++
	body := m.Data
	if len(body) == 0 && len(m.Header) > 0 {
		headers := make(map[string]string)
		for name := range m.Header {
			headers[name] = m.Header.Get(name)
		}
		body, _ = json.Marshal(headers)
	}
	if len(body) > 0 && len(body) < 2000 {
		h.said[message.Name] = append(h.said[message.Name], plain(h.t, body))
		h.lines = append(h.lines, fmt.Sprintf("%s %s %s", message.Name, m.Subject, body))
	}
}

// plain reads JSON without the numbers that differ from run to run: how many messages
// changes come in depends on the machine when the fabric starts.
func plain(t *testing.T, body []byte) any {
	t.Helper()
	value, err := check.ParseJSON(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	forget(value)
	return value
}

func forget(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			forget(item)
		}
	case map[string]any:
		for name, item := range v {
			switch name {
			case "version", "generation", "seq", "sessionId", "sessionEpoch", "serverTime", "nextHeartbeatInMs":
				v[name] = true
			}
			forget(item)
		}
	}
}

// wantAllSeen fails if the document describes what does not exist.
func (h *hearing) wantAllSeen() {
	h.t.Helper()
	var wanted []string
	for name := range h.document.Operations {
		wanted = append(wanted, "operation "+name)
	}
	for name := range h.document.Messages {
		wanted = append(wanted, "message "+name)
	}
	codes, err := check.Codes()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, code := range codes {
		wanted = append(wanted, "code "+code)
	}
	for _, code := range []subjects.DeviceCode{
		subjects.DeviceUnregistered, subjects.DeviceForbidden, subjects.DeviceInvalid, subjects.DeviceTooLarge, subjects.DeviceRateLimited, subjects.DeviceUnavailable,
	} { // the others belong to HTTP, and to operations that the document does not have
		wanted = append(wanted, "device code "+string(code))
	}
	for _, what := range wanted {
		if h.seen[what] == 0 {
			h.t.Errorf("the %s was never seen", what)
		}
	}
	for reply, q := range h.open {
		// A fanout may be killed over a request; olga's client then asks again, the others do not.
		again := strings.HasSuffix(q.subject, ".olga") && h.seen["answer on "+q.subject] > 0
		if q.operation.Action == "send" && !again {
			h.t.Errorf("%s was not answered at %s", q.subject, reply)
		}
	}
	maps.DeleteFunc(h.seen, func(what string, _ int) bool { return strings.HasPrefix(what, "answer on ") })
	for _, name := range slices.Sorted(maps.Keys(h.seen)) {
		h.t.Logf("%5d × %s", h.seen[name], name)
	}
}

// wantReal fails for examples that nobody said.
func (h *hearing) wantReal(examples []check.Example) {
	h.t.Helper()
	if len(examples) == 0 {
		h.t.Error("no examples")
	}
	for _, e := range examples {
		value := plain(h.t, e.Body)
		if !slices.ContainsFunc(h.said[e.Message], func(said any) bool { return reflect.DeepEqual(said, value) }) {
			h.t.Errorf("contract.md:%d: nobody said this %s; -overheard shows what was said", e.Line, e.Message)
		}
	}
}

func (h *hearing) write(file string) {
	h.t.Helper()
	if file == "" {
		return
	}
	if err := os.WriteFile(file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o666); err != nil {
		h.t.Fatal(err)
	}
}
