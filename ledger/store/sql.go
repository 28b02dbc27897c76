package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// SQL is a Store in a SQL database.
type SQL struct {
	db      *sql.DB
	dialect *dialect
	salt    []byte
	zones   interval.Zones
}

var _ Store = (*SQL)(nil)

// Open opens SQLite for a path, which is made if missing, and PostgreSQL for a URL, and
// brings the tables up to date.
func Open(ctx context.Context, place string) (*SQL, error) {
	s, err := connect(place)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, len(migrations)-1); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return s, nil
}

func connect(place string) (*SQL, error) {
	switch {
	case strings.HasPrefix(place, "postgres://"), strings.HasPrefix(place, "postgresql://"):
		return connectPostgres(place)
	case place == "", strings.Contains(place, "://"):
		return nil, fmt.Errorf("%w: %q", ErrURL, place)
	}
	name, err := sqliteName(place)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return &SQL{db: db, dialect: sqlite}, nil
}

func connectPostgres(place string) (*SQL, error) {
	config, err := pgx.ParseConfig(place)
	if err != nil {
		// The parser's words may hold the password.
		return nil, fmt.Errorf("%w: PostgreSQL's driver cannot read it", ErrURL)
	}
	for name, value := range map[string]string{
		// A plan made while a table was small reads all of it when it is large.
		"plan_cache_mode": "force_custom_plan",
		// Statements with thousands of values take longer to compile than to run.
		"jit": "off",
	} {
		if _, chosen := config.RuntimeParams[name]; !chosen {
			config.RuntimeParams[name] = value
		}
	}
	return &SQL{db: stdlib.OpenDB(*config), dialect: postgres}, nil
}

// sqliteName makes the file, so that only its owner can read it, and names it.
func sqliteName(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("store: open: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("store: open: %w", err)
	}
	file.Close()
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("store: open: %w", err)
	}
	// Readers go on while one writes; a second writer waits for the first.
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(30000)", "journal_mode(wal)", "synchronous(normal)", "cache_size(-65536)", "temp_store(file)",
		"secure_delete(on)", // what was removed is overwritten
	}}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	return u.String(), nil
}

// Close closes the database.
func (s *SQL) Close() error { return s.db.Close() }

func (s *SQL) q(text string) string { return s.dialect.query(text) }

// transact runs one transaction.
func (s *SQL) transact(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// exclude waits for the transactions that store batches, and holds up later ones.
func (s *SQL) exclude(ctx context.Context, tx *sql.Tx) error { return lock(ctx, tx, s.dialect.exclude) }

// include lets others include themselves too, but nobody exclude them.
func (s *SQL) include(ctx context.Context, tx *sql.Tx) error { return lock(ctx, tx, s.dialect.include) }

func lock(ctx context.Context, tx *sql.Tx, statement string) error {
	if statement == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, statement)
	return err
}

// hash is how a forgotten user is remembered.
func (s *SQL) hash(user string) string {
	m := hmac.New(sha256.New, s.salt)
	m.Write([]byte(user))
	return hex.EncodeToString(m.Sum(nil))
}

// Define implements Store.
func (s *SQL) Define(ctx context.Context, d ledger.Definition) error {
	return wrap("define", s.transact(ctx, func(tx *sql.Tx) error {
		// A clock that went back must not make an older definition the newest.
		return s.define(ctx, tx, d, "(select coalesce(max(used), 0) + 1 from definitions)", "excluded.used")
	}))
}

// define makes a definition known. used is the order in which it stands, if it is new,
// and then if it is known.
func (s *SQL) define(ctx context.Context, tx *sql.Tx, d ledger.Definition, used, then string) error {
	if err := definition.Validate(d); err != nil {
		return err
	}
	if err := s.exclude(ctx, tx); err != nil {
		return err
	}
	hash := definition.Hash(d)
	if _, err := tx.ExecContext(ctx, s.q(`insert into definitions (version, hash, body, used) values (?, ?, ?, `+used+`)
		on conflict (version) do update set used = `+then+` where definitions.hash = excluded.hash`),
		d.Version, hash, string(definition.Canonical(d))); err != nil {
		return err
	}
	var known string
	if err := tx.QueryRowContext(ctx, s.q("select hash from definitions where version = ?"), d.Version).Scan(&known); err != nil {
		return err
	}
	if known != hash {
		return fmt.Errorf("%w: %q", ErrDefinition, d.Version)
	}
	return nil
}

// Definitions implements Store.
func (s *SQL) Definitions(ctx context.Context) (all []Defined, err error) {
	query := func(scan func(...any) error) (d Defined, err error) {
		var body string
		if err := scan(&d.Hash, &body, &d.Rebuilt); err != nil {
			return d, err
		}
		d.Definition, err = definition.Parse([]byte(body))
		return d, err
	}
	for d, err := range stream(ctx, s, query, "select hash, body, used = 0 from definitions order by used desc, version") {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", what, err)
}
