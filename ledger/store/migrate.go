package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// migrations are the steps from an empty database to today's. A step that was released
// never changes; what is wrong with it is a matter of the next one.
var migrations = []string{
	1: `
create table definitions (
	version text primary key,
	hash text not null,
	body text not null,
	used bigint not null
);
create table sessions (
	definition text not null,
	id text not null,
	revision bigint not null,
	user_id text not null,
	device text not null,
	client_type text not null,
	client_version text not null,
	channel text not null,
	region text not null,
	epoch bigint not null,
	started bigint not null,
	ended bigint not null,
	ended_by text not null,
	primary key (definition, id)
) {{rows}};
create index sessions_by_user on sessions (definition, user_id, started, id);
create table intervals (
	definition text not null,
	session_id text not null,
	measure text not null,
	started bigint not null,
	ended bigint not null,
	user_id text not null,
	primary key (definition, session_id, measure, started)
) {{rows}};
create index intervals_by_user on intervals (definition, measure, user_id, started, ended, session_id);
create table positions (
	definition text not null,
	source text not null,
	position bigint not null,
	primary key (definition, source)
);`,
	2: `
create table quarantine (
	id text primary key,
	definition text not null,
	rule text not null,
	reason text not null,
	at bigint not null,
	user_id text not null,
	source text not null,
	body text not null,
	released bigint not null
);
create index quarantine_by_user on quarantine (user_id);
create table audit (
	id {{counter}},
	at bigint not null,
	actor text not null,
	action text not null,
	subject text not null,
	detail text not null
);
create table forgotten (
	hash text primary key,
	at bigint not null
);`,
	3: `
create table daily (
	definition text not null,
	zone text not null,
	measure text not null,
	user_id text not null,
	day text not null,
	union_ms bigint not null,
	sum_ms bigint not null,
	primary key (definition, zone, measure, user_id, day)
) {{rows}};
create index sessions_by_end on sessions (ended);`,
	4: `
drop table positions;
create table checkpoints (
	definition text not null,
	source text not null,
	revision bigint not null,
	body {{bytes}} not null,
	primary key (definition, source)
);
alter table quarantine add column revision bigint not null default 0;`,
	5: `
create table accounts (
	account text primary key,
	role text not null,
	team text not null
);
create table teams (
	team text not null,
	user_id text not null,
	primary key (team, user_id)
) {{rows}};
create table kept (
	definition text not null,
	zone text not null,
	measure text not null,
	primary key (definition, zone, measure)
);
insert into kept select distinct definition, zone, measure from daily;
create view analyst_daily as
	select definition, zone, measure, day, count(*) as users, sum(union_ms) / 1000.0 as union_seconds, sum(sum_ms) / 1000.0 as sum_seconds
	from daily where day < {{ended}} and zone = coalesce((select value from meta where name = 'zone'), zone)
	group by definition, zone, measure, day
	having count(*) >= coalesce((select cast(value as integer) from meta where name = 'minimum'), 5);
create view lead_daily as
	select d.definition, d.zone, d.measure, d.user_id, d.day, d.union_ms / 1000.0 as union_seconds, d.sum_ms / 1000.0 as sum_seconds
	from daily d join teams t on t.user_id = d.user_id join accounts a on a.team = t.team
	where d.day < {{ended}} and a.role = 'lead' and a.account = {{account}} and d.zone = (select value from meta where name = 'zone');`,
	6: `
create table rebuilds (
	definition text not null,
	bounds_from bigint not null,
	bounds_to bigint not null,
	source text not null,
	ends bigint not null,
	started bigint not null,
	finished bigint not null,
	primary key (definition, bounds_from, bounds_to, source)
) {{rows}};`,
	// A session is its user's and device's, and both tables are in one order: an index
	// more costs as much as the table when rows are written.
	7: `
drop index sessions_by_user;
drop index sessions_by_end;
drop index intervals_by_user;
alter table sessions rename to old_sessions;
alter table intervals rename to old_intervals;
create table sessions (
	definition text not null,
	user_id text not null,
	device text not null,
	id text not null,
	revision bigint not null,
	client_type text not null,
	client_version text not null,
	channel text not null,
	region text not null,
	epoch bigint not null,
	started bigint not null,
	ended bigint not null,
	ended_by text not null,
	primary key (definition, user_id, device, id)
) {{rows}};
create table intervals (
	definition text not null,
	user_id text not null,
	device text not null,
	session_id text not null,
	measure text not null,
	started bigint not null,
	ended bigint not null,
	primary key (definition, user_id, device, session_id, measure, started)
) {{rows}};
insert into sessions (definition, user_id, device, id, revision, client_type, client_version, channel, region, epoch, started, ended, ended_by)
	select definition, user_id, device, id, revision, client_type, client_version, channel, region, epoch, started, ended, ended_by
	from old_sessions;
insert into intervals (definition, user_id, device, session_id, measure, started, ended)
	select i.definition, i.user_id, s.device, i.session_id, i.measure, i.started, i.ended
	from old_intervals i join old_sessions s on s.definition = i.definition and s.id = i.session_id;
drop table old_sessions;
drop table old_intervals;
create index sessions_by_end on sessions (ended);`,
	// When what is there was refused is not known: it is not older than it may become.
	8: `
alter table quarantine add column refused bigint not null default 0;
update quarantine set refused = {{now}};`,
}

// migrate brings a database to a version, normally the newest.
func (s *SQL) migrate(ctx context.Context, upto int) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "create table if not exists meta (name text primary key, value text not null)"); err != nil {
			return err
		}
		version, err := s.version(ctx, tx)
		if err != nil {
			return err
		}
		if version >= len(migrations) {
			return fmt.Errorf("%w: tables of version %d, known is %d", ErrNewer, version, len(migrations)-1)
		}
		for next := version + 1; next <= upto; next++ {
			if _, err := tx.ExecContext(ctx, s.dialect.ddl(migrations[next])); err != nil {
				return fmt.Errorf("store: migration %d: %w", next, err)
			}
			if err := s.setMeta(ctx, tx, "version", strconv.Itoa(next)); err != nil {
				return err
			}
		}
		s.salt, err = s.loadSalt(ctx, tx)
		return err
	})
}

func (s *SQL) version(ctx context.Context, tx *sql.Tx) (int, error) {
	text, err := s.meta(ctx, tx, "version")
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.Atoi(text)
}

// loadSalt finds the key of the hashes by which forgotten users are remembered.
func (s *SQL) loadSalt(ctx context.Context, tx *sql.Tx) ([]byte, error) {
	text, err := s.meta(ctx, tx, "salt")
	if err != nil {
		return nil, err
	}
	if text == "" {
		salt := make([]byte, 32)
		rand.Read(salt)
		text = hex.EncodeToString(salt)
		if err := s.setMeta(ctx, tx, "salt", text); err != nil {
			return nil, err
		}
	}
	return hex.DecodeString(text)
}

func (s *SQL) meta(ctx context.Context, tx *sql.Tx, name string) (value string, err error) {
	err = tx.QueryRowContext(ctx, s.q("select value from meta where name = ?"), name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func (s *SQL) setMeta(ctx context.Context, tx *sql.Tx, name, value string) error {
	_, err := tx.ExecContext(ctx, s.q(`insert into meta (name, value) values (?, ?)
		on conflict (name) do update set value = excluded.value`), name, value)
	return err
}
