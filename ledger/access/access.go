package access

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

var (
	// ErrInvalid is a set of rules that cannot be read or makes no sense; the wrapping
	// says why.
	ErrInvalid = errors.New("access: invalid rules")

	// ErrDenied is a question that is not this account's to ask; the wrapping says why.
	ErrDenied = errors.New("access: denied")
)

// A Role is what an account may see.
type Role string

// The roles.
const (
	Auditor Role = "auditor"
	Lead    Role = "lead"
	Analyst Role = "analyst"
)

// DefaultMinimum is how many users a group has at least that an analyst sees. A larger
// one hides more of those who are few, and says less of them.
const DefaultMinimum = 5

// An Account is one that has a role, and of a lead the team.
type Account struct {
	Role Role
	Team string
}

// Rules are who has which role. The zero Rules are none: everybody is an auditor.
type Rules struct {
	Accounts map[string]Account
	Others   Role                // of all other accounts; empty for nothing at all
	Teams    map[string][]string // users
	Minimum  int                 // users
	Zone     string              // whose days all see who see no instants
}

// None says whether there are no rules.
func (r Rules) None() bool { return len(r.Accounts) == 0 }

// Validate returns [ErrInvalid] with the reason for rules that make no sense.
func (r Rules) Validate() error {
	if r.None() {
		return nil
	}
	auditors := 0
	for name, a := range r.Accounts {
		switch a.Role {
		case Auditor:
			auditors++
		case Lead:
			if _, ok := r.Teams[a.Team]; !ok {
				return fmt.Errorf("%w: %s leads %q, which is no team", ErrInvalid, name, a.Team)
			}
		case Analyst:
		default:
			return fmt.Errorf("%w: %s has no role such as auditor, lead or analyst: %q", ErrInvalid, name, a.Role)
		}
	}
	switch {
	case auditors == 0:
		return fmt.Errorf("%w: no auditor, so nobody could change them again", ErrInvalid)
	case r.Others != "" && r.Others != Analyst && r.Others != Auditor:
		return fmt.Errorf("%w: others can be analyst, auditor, or left out, not %q", ErrInvalid, r.Others)
	case r.Minimum < 2:
		return fmt.Errorf("%w: minimum %d: a group of one is a user", ErrInvalid, r.Minimum)
	}
	if _, err := interval.LoadZone(r.Zone); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// A Reader is somebody who asks.
type Reader struct {
	Account string
	Role    Role
	Team    string   // of a lead
	Users   []string // of the team, sorted
	Minimum int      // users in a group that an analyst sees
	Zone    string   // empty if no rules name one
}

// Reader is what the rules say of an account, or [ErrDenied]. A role that is asked for
// narrows the account's own: an auditor can look with the eyes of others.
func (r Rules) Reader(account string, as Role, team string) (Reader, error) {
	reader := Reader{Account: account, Role: Auditor, Minimum: r.Minimum, Zone: r.Zone}
	if !r.None() {
		a, named := r.Accounts[account]
		if !named {
			a.Role = r.Others
		}
		if a.Role == "" {
			return reader, fmt.Errorf("%w: %s has no role in this ledger", ErrDenied, account)
		}
		reader.Role, reader.Team = a.Role, a.Team
	} else {
		reader.Minimum = DefaultMinimum
	}
	if as != "" && as != Auditor && as != Lead && as != Analyst {
		return reader, fmt.Errorf("%w: no role %q; there are auditor, lead and analyst", ErrInvalid, as)
	}
	if as != "" && as != reader.Role {
		if reader.Role != Auditor {
			return reader, fmt.Errorf("%w: %s is %s, not %s", ErrDenied, account, reader.Role, as)
		}
		reader.Role, reader.Team = as, team
	}
	if reader.Role != Lead {
		return reader, nil
	}
	users, ok := r.Teams[reader.Team]
	if !ok {
		return reader, fmt.Errorf("%w: there is no team %q", ErrDenied, reader.Team)
	}
	reader.Users = slices.Sorted(slices.Values(users))
	return reader, nil
}

// Exact says whether the reader sees instants, and days that have not ended.
func (r Reader) Exact() bool { return r.Role == Auditor }

// Sees returns [ErrDenied] unless the reader may look at one user.
func (r Reader) Sees(user string) error {
	if r.Role == Lead {
		if _, ok := slices.BinarySearch(r.Users, user); ok {
			return nil
		}
		return fmt.Errorf("%w: %s is not in the team %s", ErrDenied, user, r.Team)
	}
	if r.Role == Analyst {
		return fmt.Errorf("%w: an analyst sees no single user", ErrDenied)
	}
	return nil
}
