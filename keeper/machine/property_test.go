package machine

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// After every message of any history the machine is where the model is.
func TestMachineEqualsModel(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		h := newHistorian(t, p)
		m := New(p, 0)
		told := make(map[modelControl]bool)
		var departures []Departure
		for range rapid.IntRange(1, 120).Draw(t, "messages") {
			msg := h.next()
			msg.applyTo(m)
			if h.chance(10, "again") {
				msg.applyTo(m)
			}
			mustHold(t, m)
			mustEqualModel(t, m, h.model, msg)
			if h.chance(30, "take") {
				departures = append(departures, listen(told, m.Take())...)
			}
		}
		departures = append(departures, listen(told, m.Take())...)
		if !maps.Equal(told, h.model.controls) {
			t.Fatalf("told %v\nwant %v", told, h.model.controls)
		}
		if !slices.Equal(sortedDepartures(departures), sortedDepartures(h.model.departures)) {
			t.Fatalf("departures %v\nwant %v", departures, h.model.departures)
		}
	})
}

func sortedDepartures(ds []Departure) []string {
	var lines []string
	for _, d := range ds {
		lines = append(lines, fmt.Sprint(d))
	}
	slices.Sort(lines)
	return lines
}

func listen(told map[modelControl]bool, c Changes) []Departure {
	for _, c := range c.Controls {
		for _, conn := range c.Message.Conns {
			told[modelControl{c.Edge, c.Message.Incarnation, conn, c.Message.Kind}] = true
		}
		if len(c.Message.Conns) == 0 {
			told[modelControl{c.Edge, c.Message.Incarnation, 0, c.Message.Kind}] = true
		}
	}
	return c.Departures
}

func mustEqualModel(t *rapid.T, m *Machine, want *model, msg message) {
	t.Helper()
	if m.now != want.now || m.resumed != want.resumed || m.stats.Mismatches != want.mismatches {
		t.Fatalf("%v: now %d, resumed %d, %d mismatches; want %d, %d, %d", msg, m.now, m.resumed, m.stats.Mismatches, want.now, want.resumed, want.mismatches)
	}
	for _, id := range []string{"u1", "u2", "u3", "u4"} {
		u := m.users[id]
		if u == nil {
			u = &user{id: id}
		}
		if u.shown != want.shown(id) || u.seen != want.seen(id) || u.offlineAt != want.deadline(id) {
			t.Fatalf("%v: %s is shown %+v, seen %d, offline at %d; want %+v, %d, %d",
				msg, id, u.shown, u.seen, u.offlineAt, want.shown(id), want.seen(id), want.deadline(id))
		}
	}
	if got, want := machineClaims(m), modelClaims(want); !slices.Equal(got, want) {
		t.Fatalf("%v: holds\n%v\nwant\n%v", msg, got, want)
	}
	if got, want := machineLeases(m), modelLeases(want); !slices.Equal(got, want) {
		t.Fatalf("%v: leases %v, want %v", msg, got, want)
	}
}

func machineClaims(m *Machine) (lines []string) {
	for id, e := range m.edges {
		for _, c := range e.claims {
			lines = append(lines, fmt.Sprint(id, c.incarnation, c.conn, c.endpoint.user.id, c.endpoint.device, c.epoch, c.state, c.activity, c.current()))
		}
	}
	slices.Sort(lines)
	return lines
}

func modelClaims(m *model) (lines []string) {
	for _, c := range m.held {
		state := max(rollcall.State(c.state), rollcall.Background)
		lines = append(lines, fmt.Sprint(c.edge, c.incarnation, c.conn, c.user, c.device, c.epoch, state, c.activity, m.isCurrent(c)))
	}
	slices.Sort(lines)
	return lines
}

func machineLeases(m *Machine) (lines []string) {
	for id, e := range m.edges {
		lines = append(lines, fmt.Sprint(id, e.incarnation, e.renewed, e.listing != nil))
	}
	slices.Sort(lines)
	return lines
}

func modelLeases(m *model) (lines []string) {
	for _, l := range m.leases {
		lines = append(lines, fmt.Sprint(l.edge, l.incarnation, l.renewed, l.listed != nil))
	}
	slices.Sort(lines)
	return lines
}

// What is published only moves on: versions grow from Take to Take, an offline is
// never earlier than the debounce after the last connection ended, and never
// while one is current.
func TestPublicationsMoveOn(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		history, _ := drawHistory(t, p, 150)
		m := New(p, 0)
		last := make(map[string]*wire.View)
		connected := make(map[string]rollcall.Micros) // when a connection was last current
		for _, msg := range history {
			msg.applyTo(m)
			for _, v := range m.Take().Views {
				if v.Record.Version <= last[v.User].GetVersion() {
					t.Fatalf("%v: %s goes from %v to %v", msg, v.User, last[v.User], v.Record)
				}
				if v.Record.Seen < last[v.User].GetSeen() {
					t.Fatalf("%v: last seen of %s goes back from %v to %v", msg, v.User, last[v.User], v.Record)
				}
				last[v.User] = v.Record
				since, ever := connected[v.User]
				if v.Record.State == wire.State_STATE_OFFLINE && ever && m.now < since.Add(p.Debounce) {
					t.Fatalf("%v: %s offline after %v", msg, v.User, m.now.Sub(since))
				}
			}
			for id, u := range m.users {
				if u.best() != nil {
					connected[id] = m.now
				}
			}
		}
	})
}

// However a log is cut into batches, the records are the same in the end.
func TestBatchesDoNotMatter(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		history, _ := drawHistory(t, p, 100)
		one, many := New(p, 0), New(p, 0)
		oneStore, manyStore := newStore(), newStore()
		for _, msg := range history {
			msg.applyTo(one)
			msg.applyTo(many)
			if rapid.Bool().Draw(t, "take") {
				manyStore.write(many.Take(), -1)
			}
		}
		oneStore.write(one.Take(), -1)
		manyStore.write(many.Take(), -1)
		mustEqualStores(t, manyStore, oneStore)
	})
}

func mustEqualStores(t *rapid.T, got, want *store) {
	t.Helper()
	equalRecords(t, "view", got.Views, want.Views)
	equalRecords(t, "user", got.Users, want.Users)
	equalRecords(t, "edge", got.Edges, want.Edges)
}

func equalRecords[M proto.Message](t *rapid.T, what string, got, want map[string]M) {
	t.Helper()
	for id := range want {
		if _, ok := got[id]; !ok {
			t.Fatalf("%s %s: no record, want %v", what, id, want[id])
		}
	}
	for id, record := range got {
		expected, ok := want[id]
		if !ok || !proto.Equal(record, expected) {
			t.Fatalf("%s %s:\n got %v\nwant %v", what, id, record, expected)
		}
	}
}
