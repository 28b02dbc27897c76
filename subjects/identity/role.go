package identity

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Role is what kind of party a credential is for.
type Role string

// The roles, from the least to the most that they may do.
const (
	Viewer   Role = "viewer"   // sees what it may of others, and decides what is seen of itself
	Device   Role = "device"   // a device that speaks NATS
	Edge     Role = "edge"     // a gateway process
	Door     Role = "door"     // a front door: a gateway that also asks for its users
	Natsgate Role = "natsgate" // a front door for devices that speak NATS
	Backend  Role = "backend"  // the application: policies, and any viewer's requests
	Ledger   Role = "ledger"   // reads what edges observed
	Keeper   Role = "keeper"   // turns it into leases and views
	Fanout   Role = "fanout"   // tells viewers
	Worker   Role = "worker"   // a member of a worker group
	Operator Role = "operator" // whoever runs the fabric: everything in its account
)

// Roles lists every role.
var Roles = [...]Role{Viewer, Device, Edge, Door, Natsgate, Backend, Ledger, Keeper, Fanout, Worker, Operator}

// Later are the roles that the first fabrics with identities did not have.
var Later = [...]Role{Worker, Door, Natsgate}

// Errors of this package, wrapped with the reason.
var (
	ErrRole       = errors.New("identity: no such role")
	ErrName       = errors.New("identity: invalid name")
	ErrTTL        = errors.New("identity: invalid time to live")
	ErrKey        = errors.New("identity: unusable key")
	ErrCredential = errors.New("identity: not a credential")
)

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(Roles[:], r) {
		return r, nil
	}
	return "", fmt.Errorf("%w: %q", ErrRole, s)
}

// nameOf is the name that a token carries: each id as one token of a subject.
func nameOf(role Role, ids ...string) (string, error) {
	want := 1
	if role == Device {
		want = 2
	}
	if len(ids) != want {
		return "", fmt.Errorf("%w: a %s is named by %d ids, not %d", ErrName, role, want, len(ids))
	}
	name := ""
	for i, id := range ids {
		if err := rollcall.CheckID(id); err != nil {
			return "", fmt.Errorf("%w: %w", ErrName, err)
		}
		if i > 0 {
			name += "."
		}
		name += subjects.Token(id)
	}
	return name, nil
}

// Inbox is the prefix of the inboxes of a party, without a dot at its end. The name is
// that of its credential.
func Inbox(role Role, name string) string { return "_INBOX." + string(role) + "." + name }

// inboxes is what matches every inbox of a role.
func inboxes(role Role) string { return Inbox(role, ">") }
