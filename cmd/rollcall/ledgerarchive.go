package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/pseudonym"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// shelf is where the ledger is, and its archive.
type shelf struct {
	books
	Archive string `env:"ROLLCALL_ARCHIVE" type:"path" placeholder:"DIR" help:"Directory of the archive (default: archive in the data directory)."`
}

func (s shelf) archive() string { return cmp.Or(s.Archive, filepath.Join(s.Dir, "archive")) }

type ledgerArchiveCmd struct {
	shelf
	Every lapse `default:"5m" help:"How often what was read becomes part of the archive (default ${default})."`
	Once  bool  `help:"End when everything is archived that is stored now."`
	observed
	remote
}

func (c *ledgerArchiveCmd) Help() string {
	return `Follows log and heartbeats of a running fabric and writes every event to Parquet files, for SQL tools and for figures that are
computed again later. Events lie by UTC date and hour of when they happened, as events/date=2026-12-01/hour=09/*.parquet;
what cannot be read lies in rejected/, with its bytes. DuckDB, for one, reads
  select kind, count(*) from read_parquet('rollcall-data/archive/events/**/*.parquet', hive_partitioning = true) group by kind

It can be stopped and killed at any time: it goes on where it was, nothing is lost or there twice. A fabric that is made with
'rollcall init --archive' keeps everything in its streams until it is archived and older than the retention; others let
it expire after that time. 'rollcall up' archives by itself if the fabric says so. One process may archive into a directory.`
}

func (c *ledgerArchiveCmd) Run(ctx context.Context, std console) error {
	if c.Every <= 0 {
		return fmt.Errorf("%w: --every must be positive", errUsage)
	}
	log := c.logger(std, slog.LevelWarn)
	c.log = log
	watch, err := c.watch(nil)
	if err != nil {
		return err
	}
	defer watch.close()
	ledger, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer ledger.Close()
	host, _ := os.Hostname()
	id := cmp.Or(nameIn(c.Creds, identity.Ledger), host, "archive")
	nc, err := c.connectAs(std, "archive", party{role: identity.Ledger, ids: []string{id}, anyName: true, does: "archive"})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	found, err := fabric.Await(ctx, js, c.Prefix, log)
	if err != nil {
		return err
	}
	fate := "the streams keep everything until it is archived, at least for " + short(found.Archive)
	if found.Archive == 0 {
		fate = "the streams let everything expire, archived or not ('rollcall init --archive' changes that)"
	}
	fmt.Fprintf(std.err, "archiving into %s; %s\n", c.archive(), fate)
	a, err := c.archiver(nc, found, ledger, archive.Options{Config: archive.Config{Every: time.Duration(c.Every)}, Once: c.Once, Registerer: watch.registry, Logger: log})
	if err != nil {
		return err
	}
	watch.parts.Add("archive", connected{nc})
	watch.connection("archive", nc)
	working, end := context.WithCancel(ctx)
	defer end()
	group, working := errgroup.WithContext(working)
	watch.serve(working, group)
	group.Go(func() error {
		summarise(working, c.logger(std, slog.LevelInfo), c.Summary, watch.registry, digests["archive"])
		return nil
	})
	group.Go(func() error { defer end(); return severed(nc, a.Run(working)) })
	err = group.Wait()
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		s := a.Stats()
		fmt.Fprintf(std.err, "archived: %d events, %d messages that cannot be read\n", s.Events, s.Rejected)
	}
	return err
}

// archiver leaves out whom the ledger has forgotten, and names devices as imports do.
func (s shelf) archiver(nc *nats.Conn, found fabric.Fabric, ledger store.Store, o archive.Options) (*archive.Archiver, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	key, err := pseudonym.Load(filepath.Join(s.Dir, "device.key"))
	if err != nil {
		return nil, err
	}
	o.Dir, o.Device, o.Forgotten = s.archive(), key.Device, ledger.Forgotten
	o.Retention = func(ctx context.Context) (time.Duration, error) {
		now, err := fabric.Lookup(ctx, js, found.Prefix())
		return now.Archive, err
	}
	return archive.New(js, found.Names, o)
}

// openArchive is nil if there is no archive, unless one was named.
func (s shelf) openArchive() (*archive.Archive, error) {
	a, err := archive.Open(s.archive())
	if errors.Is(err, archive.ErrNone) && s.Archive == "" {
		return nil, nil
	}
	return a, err
}

// forgetArchived cuts a user out of the archive, who is forgotten in the store already.
func (s shelf) forgetArchived(ctx context.Context, std console, user string) error {
	a, err := s.openArchive()
	if err != nil || a == nil {
		return err
	}
	n, err := a.Forget(ctx, user)
	if err == nil {
		fmt.Fprintf(std.err, "forgotten: %d archived events\n", n)
	}
	return err
}

// pruneArchived removes what is archived and older.
func (s shelf) pruneArchived(ctx context.Context, std console, notes store.Store, age time.Duration) error {
	a, err := s.openArchive()
	if err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("%w: no archive in %s", errUsage, s.archive())
	}
	n, err := a.Prune(ctx, time.Now().Add(-age))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "events: %d removed\n", n)
	return note(ctx, notes, "retention", "", fmt.Sprintf("events older than %v: %d", age, n))
}
