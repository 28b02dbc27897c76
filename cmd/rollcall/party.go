package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A party is who a command connects as, and so whose credential it takes.
type party struct {
	role    identity.Role
	ids     []string
	anyName bool   // any credential of the role will do
	or      *party // would do as well
	does    string // what the party must be permitted, after "may not"
}

// check refuses a credentials file of a party that the server would let in, but not let
// do what the command does. Files that are not of a fabric are left to the server.
func (p party) check(path string) error {
	c, ids, ok := credentialIn(path)
	if !ok || c.Role == identity.Operator || p.is(c.Role, ids) {
		return nil
	}
	return fmt.Errorf("%w: %s is the credential of the %s %s, which may not %s; that takes one of %s",
		errUsage, path, c.Role, strings.Join(ids, " "), p.does, p)
}

func (p party) is(role identity.Role, ids []string) bool {
	if role == p.role && (p.anyName || slices.Equal(ids, p.ids)) {
		return true
	}
	return p.or != nil && p.or.is(role, ids)
}

// String names the credentials that will do.
func (p party) String() string {
	one := "the " + string(p.role) + " " + strings.Join(p.ids, " ")
	switch {
	case p.anyName && strings.IndexByte("aeiou", p.role[0]) >= 0:
		one = "an " + string(p.role)
	case p.anyName:
		one = "a " + string(p.role)
	}
	if p.or != nil {
		return one + ", of " + p.or.String()
	}
	return one + " or of an operator"
}

// credentialIn reads a credentials file, and says whether it is one of a fabric.
func credentialIn(path string) (c identity.Credential, ids []string, ok bool) {
	if path == "" {
		return c, nil, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, nil, false
	}
	if c, err = identity.Parse(b); err != nil {
		return c, nil, false
	}
	if ids, err = c.IDs(); err != nil {
		return c, nil, false
	}
	return c, ids, true
}

// nameIn is the id for which a credentials file of this role was minted; empty if there
// is no such file.
func nameIn(path string, role identity.Role) string {
	if c, ids, ok := credentialIn(path); ok && c.Role == role {
		return ids[0]
	}
	return ""
}
