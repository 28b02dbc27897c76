package machine

import (
	"fmt"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// invariants says what a machine holds that cannot be: every figure that it keeps
// up to date is computed again from what it stands for. Between Load and the end
// of the replay only some of them hold; see replaying.
func invariants(m *Machine) error {
	for _, check := range []func(*Machine) error{checkUsers, checkEdges, checkDeadlines, checkGone, checkOnline} {
		if err := check(m); err != nil {
			return err
		}
	}
	return nil
}

func replaying(m *Machine) bool { return m.seq <= m.replay.end }

func checkUsers(m *Machine) error {
	for id, u := range m.users {
		switch {
		case u.id != id:
			return fmt.Errorf("user %q is filed under %q", u.id, id)
		case u.removed:
			return fmt.Errorf("user %q is removed and still there", id)
		case u.shown.version > max(m.seq, m.replay.end):
			return fmt.Errorf("user %q: version %d is of a message that was not applied", id, u.shown.version)
		case u.best() != nil && u.shown.state == rollcall.Offline:
			return fmt.Errorf("user %q is shown offline with a current connection", id)
		case u.best() != nil && u.offlineAt != 0:
			return fmt.Errorf("user %q goes offline with a current connection", id)
		case u.shown.state == rollcall.Offline && u.offlineAt != 0:
			return fmt.Errorf("user %q is offline and goes offline", id)
		case u.best() == nil && u.shown.state != rollcall.Offline && u.offlineAt == 0:
			return fmt.Errorf("user %q has no connection and stays online for ever", id)
		case u.shown.version == 0 && !u.claimed():
			return fmt.Errorf("user %q is remembered for nothing", id)
		}
		for _, ep := range u.endpoints {
			if err := checkEndpoint(m, u, ep); err != nil {
				return fmt.Errorf("user %q, device %q: %w", id, ep.device, err)
			}
		}
	}
	return nil
}

func checkEndpoint(m *Machine, u *user, ep *endpoint) error {
	if ep.user != u || u.endpoint(ep.device) != ep {
		return fmt.Errorf("it belongs to another user, or is there twice")
	}
	claims := ep.stale
	if ep.current != nil {
		claims = append(claims[:len(claims):len(claims)], ep.current)
		if ep.current.epoch != ep.epoch {
			return fmt.Errorf("epoch %d, current connection of %d", ep.epoch, ep.current.epoch)
		}
	}
	for _, c := range claims {
		switch {
		case c.endpoint != ep:
			return fmt.Errorf("connection %d belongs to another endpoint", c.conn)
		case m.edges[c.edge.id] != c.edge:
			return fmt.Errorf("connection %d belongs to edge %q, which is forgotten", c.conn, c.edge.id)
		case c.slot >= len(c.edge.claims) || c.edge.claims[c.slot] != c:
			return fmt.Errorf("connection %d is unknown to its edge", c.conn)
		case c.state == rollcall.Offline:
			return fmt.Errorf("connection %d is offline", c.conn)
		}
	}
	return nil
}

func checkEdges(m *Machine) error {
	for id, e := range m.edges {
		var digest subjects.Digest
		stale := 0
		for slot, c := range e.claims {
			digest += c.digest
			if !c.current() {
				stale++
			}
			if c.slot != slot || c.edge != e || m.users[c.endpoint.user.id] != c.endpoint.user {
				return fmt.Errorf("edge %q: connection %d is filed wrongly", id, c.conn)
			}
			if e.leased && c.incarnation != e.incarnation && !replaying(m) {
				return fmt.Errorf("edge %q: connection %d outlived its process", id, c.conn)
			}
		}
		switch {
		case e.id != id:
			return fmt.Errorf("edge %q is filed under %q", e.id, id)
		case digest != e.digest:
			return fmt.Errorf("edge %q: digest %x, want %x", id, e.digest, digest)
		case stale != e.stale:
			return fmt.Errorf("edge %q: %d stale connections, want %d", id, e.stale, stale)
		case e.listing != nil && !e.leased:
			return fmt.Errorf("edge %q: a roster without a lease", id)
		case m.leaseCheck == 0 || m.leaseCheck > m.leaseEnds(e):
			return fmt.Errorf("edge %q: its lease ends unwatched", id)
		}
	}
	return nil
}

func checkDeadlines(m *Machine) error {
	due := 0
	for id, u := range m.users {
		if u.offlineAt == 0 {
			continue
		}
		if due++; u.slot < 0 || u.slot >= len(m.deadlines) || m.deadlines[u.slot] != u {
			return fmt.Errorf("user %q: deadline in slot %d of %d is another's", id, u.slot, len(m.deadlines))
		}
	}
	if due != len(m.deadlines) {
		return fmt.Errorf("%d deadlines for %d users", len(m.deadlines), due)
	}
	for i := 1; i < len(m.deadlines); i++ {
		if m.deadlines.Less(i, (i-1)/2) {
			return fmt.Errorf("deadline %d is before its parent", i)
		}
	}
	return nil
}

func checkGone(m *Machine) error {
	offline := 0
	for id, u := range m.users {
		if listed := u.gone != nil; listed != (u.shown.version != 0 && u.shown.state == rollcall.Offline) {
			return fmt.Errorf("user %q: shown %v, in the list of the offline: %v", id, u.shown.state, listed)
		} else if listed {
			offline++
		}
	}
	if m.gone.Len() != offline {
		return fmt.Errorf("%d in the list of the offline, want %d", m.gone.Len(), offline)
	}
	var last rollcall.Micros
	for at := m.gone.Front(); at != nil; at = at.Next() {
		u := at.Value.(*user)
		if m.users[u.id] != u || u.gone != at || u.shown.observed < last {
			return fmt.Errorf("user %q is listed wrongly among the offline", u.id)
		}
		last = u.shown.observed
	}
	return nil
}

func checkOnline(m *Machine) error {
	online, claims, ofUsers := 0, 0, 0
	for _, u := range m.users {
		if u.shown.state != rollcall.Offline {
			online++
		}
		for _, ep := range u.endpoints {
			ofUsers += len(ep.stale)
			if ep.current != nil {
				ofUsers++
			}
		}
	}
	for _, e := range m.edges {
		claims += len(e.claims)
	}
	if s := m.Stats(); s.Online != online || s.Connections != claims || claims != ofUsers {
		return fmt.Errorf("%d online, want %d; %d connections, want %d; users hold %d", s.Online, online, s.Connections, claims, ofUsers)
	}
	return nil
}
