package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/pseudonym"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type ledgerRunCmd struct {
	books
	Definition string        `type:"existingfile" placeholder:"FILE" help:"Definition as YAML (default: the one that ships); 'rollcall ledger definitions --template' prints one."`
	Zone       []string      `default:"UTC" help:"Time zone whose days are counted, such as Europe/Berlin (default ${default}). Repeatable."`
	Shard      []int         `placeholder:"N" help:"Follow this shard, whoever else runs; others need a ledger of their own (default: what the group gives it). Repeatable."`
	Every      time.Duration `default:"5s" help:"How often what was read is stored (default ${default})."`
	running
}

func (c *ledgerRunCmd) Help() string {
	return `Follows log and heartbeats of a running fabric and stores sessions, daily totals and what breaks a rule. 'rollcall up' does so by
itself. It can be stopped and killed at any time: it goes on where it was, nothing is lost or there twice, as long as the
streams keep what it has not read (48 h by default). While the database or NATS is away it tries again.

Under another definition the streams are read again from their start; the old figures stay. 'rollcall top' shows how many are
online now.
` + sharing + `

All of them need the same database, which several machines share as PostgreSQL, and the same device key (device.key in the data
directory). With --shard one follows just these, outside the group: if a second one does so by mistake, it stands by.`
}

func (c *ledgerRunCmd) Run(ctx context.Context, std console) error {
	config := live.Config{Shards: c.Shard, Zones: c.Zone, Interval: c.Every}
	if c.Definition != "" {
		var err error
		if config.Definition, err = readDefinition(c.Definition); err != nil {
			return wrongly(err)
		}
	}
	if c.Every <= 0 {
		return fmt.Errorf("%w: --every must be positive", errUsage)
	}
	log := c.logger(std, slog.LevelInfo)
	ledger, err := persist(ctx, log, c.place(), func() (*opened, error) { return c.open(ctx, true) })
	if err != nil {
		return err
	}
	defer ledger.Close()
	return wrongly(c.run(ctx, std, identity.Ledger, ofSharers, func(p process) (sharer, error) {
		config.Prefix, config.Registerer, config.Logger = c.Prefix, p.registry, p.log
		if len(c.Shard) == 0 {
			config.Member = p.member
		}
		return newLedger(p.nc, ledger, c.Dir, config)
	}))
}

// newLedger names devices as imports and the archive do.
func newLedger(nc *nats.Conn, s store.Store, dir string, c live.Config) (*live.Ledger, error) {
	key, err := pseudonym.Load(filepath.Join(dir, "device.key"))
	if err != nil {
		return nil, err
	}
	c.Device = key.Device
	l, err := live.New(nc, s, c)
	return l, wrongly(err)
}

// persist opens a store; a database elsewhere that is away is waited for.
func persist[T any](ctx context.Context, log *slog.Logger, place string, open func() (T, error)) (T, error) {
	for {
		s, err := open()
		if err == nil || !strings.Contains(place, "://") || errors.Is(err, errUsage) || errors.Is(err, store.ErrNewer) {
			return s, err
		}
		log.Warn("opening the ledger's database; trying again", "err", plain(err))
		if !retry.Pause(ctx, 5*time.Second) {
			return s, ctx.Err()
		}
	}
}
