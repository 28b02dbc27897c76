package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"

	"github.com/rollcall-io/rollcall/ledger/access"
)

// The rules of access are in tables, so that views can hold to them.
const (
	metaMinimum = "minimum"
	metaZone    = "zone"
	metaOthers  = "others"
)

// SetRules implements Store.
func (s *SQL) SetRules(ctx context.Context, r access.Rules) error {
	if err := r.Validate(); err != nil {
		return err
	}
	err := s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		for _, table := range []string{"accounts", "teams"} {
			if _, err := tx.ExecContext(ctx, "delete from "+table); err != nil {
				return err
			}
		}
		for name, value := range map[string]string{metaMinimum: strconv.Itoa(r.Minimum), metaZone: r.Zone, metaOthers: string(r.Others)} {
			if err := s.setMeta(ctx, tx, name, value); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.Accounts)) {
			if _, err := tx.ExecContext(ctx, s.q("insert into accounts (account, role, team) values (?, ?, ?)"),
				name, string(r.Accounts[name].Role), r.Accounts[name].Team); err != nil {
				return err
			}
		}
		return s.setTeams(ctx, tx, r.Teams)
	})
	return wrap("set rules", err)
}

func (s *SQL) setTeams(ctx context.Context, tx *sql.Tx, teams map[string][]string) error {
	for _, team := range slices.Sorted(maps.Keys(teams)) {
		// The team itself: one of nobody is a team.
		for _, user := range append([]string{""}, teams[team]...) {
			if gone, err := s.forgotten(ctx, tx, user); err != nil || gone {
				if err != nil {
					return err
				}
				continue
			}
			if _, err := tx.ExecContext(ctx, s.q("insert into teams (team, user_id) values (?, ?) on conflict do nothing"), team, user); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rules implements Store. One statement sees one moment, and waits for no writer.
func (s *SQL) Rules(ctx context.Context) (access.Rules, error) {
	r := access.Rules{Accounts: map[string]access.Account{}, Teams: map[string][]string{}}
	type line struct{ kind, name, value, team string }
	lines := stream(ctx, s, func(scan func(...any) error) (l line, err error) {
		return l, scan(&l.kind, &l.name, &l.value, &l.team)
	}, `select 'account', account, role, team from accounts
		union all select 'team', team, user_id, '' from teams
		union all select 'setting', name, value, '' from meta where name in (?, ?, ?)
		order by 1, 2, 3`, metaMinimum, metaZone, metaOthers)
	for l, err := range lines {
		if err != nil {
			return access.Rules{}, err
		}
		switch l.kind {
		case "account":
			r.Accounts[l.name] = access.Account{Role: access.Role(l.value), Team: l.team}
		case "team":
			if users := r.Teams[l.name]; l.value == "" {
				r.Teams[l.name] = users
			} else {
				r.Teams[l.name] = append(users, l.value)
			}
		case "setting":
			if err := setting(&r, l.name, l.value); err != nil {
				return access.Rules{}, wrap("rules", err)
			}
		}
	}
	return r, nil
}

func setting(r *access.Rules, name, value string) (err error) {
	switch name {
	case metaMinimum:
		r.Minimum, err = strconv.Atoi(value)
	case metaZone:
		r.Zone = value
	case metaOthers:
		r.Others = access.Role(value)
	}
	return err
}
