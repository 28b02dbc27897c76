package cohort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// What people look at.
type (
	// View is a group as of its last record.
	View = machine.View
	// Event is one change of it.
	Event = machine.Event
)

// Group is a group seen by somebody who is no member: an operator.
type Group struct{ store *store }

// Open finds a group. Empty prefix and bucket are those of [Config].
func Open(ctx context.Context, nc *nats.Conn, prefix, bucket, group string) (*Group, error) {
	s, err := openOutside(ctx, nc, prefix, bucket, group)
	if err != nil {
		return nil, err
	}
	if _, err := s.settings(ctx); err != nil {
		return nil, err
	}
	return &Group{s}, nil
}

// openOutside opens the store for somebody who is no member.
func openOutside(ctx context.Context, nc *nats.Conn, prefix, bucket, group string) (*store, error) {
	names, err := subjects.New(cmp.Or(prefix, subjects.DefaultPrefix), 1)
	if err == nil {
		err = rollcall.CheckID(group)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return openStore(ctx, nc, names.CohortBucket(cmp.Or(bucket, subjects.WorkersBucket)), group)
}

// Groups lists the groups in a bucket by name.
func Groups(ctx context.Context, nc *nats.Conn, prefix, bucket string) (names []string, err error) {
	s, err := openOutside(ctx, nc, prefix, bucket, "any")
	if err != nil {
		return nil, err
	}
	err = s.all(ctx, func(msg feed.Msg) error {
		group, _, _, err := subjects.ParseCohort(subjects.KVKey(s.bucket, msg.Subject))
		if err == nil && !subjects.KVGone(msg.Header) {
			names = append(names, group)
		}
		return nil
	}, subjects.KeyCohortGroups())
	slices.Sort(names)
	return names, err
}

// errRead ends a reader that has read what there was.
var errRead = errors.New("cohort: read")

// all reads the last record of each of these keys, as of now.
func (s *store) all(ctx context.Context, handle func(feed.Msg) error, keys ...string) error {
	err := s.follow(keys...).Run(ctx, func(_ context.Context, b feed.Batch) error {
		for _, msg := range b.Msgs {
			if err := handle(msg); err != nil {
				return err
			}
		}
		if b.Pending == 0 {
			return errRead
		}
		return nil
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}

// keys of all records that a machine needs.
func (s *store) keys() []string {
	keys := []string{subjects.KeyCohortMembers(s.group)}
	for _, kind := range []subjects.CohortKind{subjects.CohortGroupKind, subjects.CohortLeaseKind, subjects.CohortPlanKind, subjects.CohortOrdersKind} {
		keys = append(keys, subjects.KeyCohort(s.group, kind))
	}
	return keys
}

// View is the group now.
func (g *Group) View(ctx context.Context) (View, error) {
	var m machine.Machine
	var unreadable []string
	err := g.store.all(ctx, func(msg feed.Msg) error {
		e, err := g.store.entry(msg)
		if m.Apply(e); err != nil {
			unreadable = append(unreadable, subjects.KVKey(g.store.bucket, msg.Subject))
		}
		return nil
	}, g.store.keys()...)
	v := m.View()
	v.Unreadable = unreadable
	return v, err
}

// Parts are the records of the partitions by number: who may commit, and what was committed. Who
// has never had an owner has none.
func (g *Group) Parts(ctx context.Context) (map[int]subjects.CohortPart, error) {
	parts := make(map[int]subjects.CohortPart)
	err := g.store.all(ctx, func(msg feed.Msg) error {
		e, err := g.store.entry(msg)
		if part, ok := e.Record.(*subjects.CohortPart); ok {
			n, _ := strconv.Atoi(e.ID) // a number, or the key would not have been read
			parts[n] = *part
		} else if err != nil {
			return fmt.Errorf("cohort: %s: %w", subjects.KVKey(g.store.bucket, msg.Subject), err)
		}
		return nil
	}, subjects.KeyCohortParts(g.store.group))
	return parts, err
}

// Watch calls f with what changes, first of all with the group as it is and no events, until ctx
// ends or f fails.
func (g *Group) Watch(ctx context.Context, f func(View, []Event) error) error {
	for {
		var m machine.Machine
		loaded := false
		err := g.store.follow(g.store.keys()...).Run(ctx, func(_ context.Context, b feed.Batch) error {
			var events []Event
			for _, msg := range b.Msgs {
				e, _ := g.store.entry(msg) // what cannot be read is not there
				events = append(events, m.Apply(e)...)
			}
			if !loaded {
				loaded, events = b.Pending == 0, nil
				if !loaded {
					return nil
				}
			} else if len(events) == 0 {
				return nil
			}
			return f(m.View(), events)
		})
		if !errors.As(err, new(*feed.RollbackError)) {
			return err
		}
	}
}

// Drain has a member give away all that it has, one by one as it releases it, and get nothing more,
// also after a restart. [Group.Undrain] takes that back.
func (g *Group) Drain(ctx context.Context, member string) error {
	return g.order(ctx, func(o *subjects.CohortOrders) {
		if !slices.Contains(o.Drained, member) {
			o.Drained = append(o.Drained, member)
		}
	})
}

// Undrain takes [Group.Drain] back.
func (g *Group) Undrain(ctx context.Context, member string) error {
	return g.order(ctx, func(o *subjects.CohortOrders) {
		o.Drained = slices.DeleteFunc(o.Drained, func(id string) bool { return id == member })
	})
}

// Move has a partition go to a member and stay there, as long as it lives and is not drained; the
// others share out the rest. [Group.Free] takes that back.
func (g *Group) Move(ctx context.Context, partition int, member string) error {
	settings, err := g.store.settings(ctx)
	if err != nil {
		return err
	}
	if partition < 0 || partition >= settings.Partitions {
		return fmt.Errorf("%w: partition %d, the group has 0 to %d", ErrConfig, partition, settings.Partitions-1)
	}
	return g.order(ctx, func(o *subjects.CohortOrders) {
		if o.Pinned == nil {
			o.Pinned = make(map[int]string)
		}
		o.Pinned[partition] = member
	})
}

// Free takes [Group.Move] back: the partition may move again.
func (g *Group) Free(ctx context.Context, partition int) error {
	return g.order(ctx, func(o *subjects.CohortOrders) { delete(o.Pinned, partition) })
}

// order changes the orders of operators. Several who do so at once do not overwrite each other.
func (g *Group) order(ctx context.Context, change func(*subjects.CohortOrders)) error {
	key := subjects.KeyCohort(g.store.group, subjects.CohortOrdersKind)
	for attempt := 0; ; attempt++ {
		stored, err := g.store.get(ctx, key)
		if err != nil {
			return err
		}
		orders := new(subjects.CohortOrders)
		if stored.value != nil {
			if orders, err = subjects.DecodeCohort[subjects.CohortOrders](stored.value); err != nil {
				return err
			}
		}
		before := subjects.CohortOrders{Drained: slices.Clone(orders.Drained), Pinned: maps.Clone(orders.Pinned)}
		change(orders)
		if slices.Equal(before.Drained, orders.Drained) && maps.Equal(before.Pinned, orders.Pinned) {
			return nil
		}
		_, err = g.store.put(ctx, key, orders, stored.revision, 0)
		if !errors.Is(err, errConflict) {
			return err
		}
		if !retry.Pause(ctx, retry.Backoff(attempt, firstPause/10, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}

// Create makes a group, so that members need not say how, and operators can where members may not
// make buckets. It fails with [ErrDiffers] if the group is there and was made differently.
func Create(ctx context.Context, nc *nats.Conn, prefix, bucket, group string, partitions int, timing Timing) error {
	cfg, names, err := Config{Group: group, ID: "nobody", Prefix: prefix, Bucket: bucket, Partitions: partitions, Timing: timing}.withDefaults()
	if err != nil {
		return err
	}
	s, err := makeStore(ctx, nc, names.CohortBucket(cfg.Bucket), group)
	if err != nil {
		return err
	}
	_, err = s.agree(ctx, cfg)
	return err
}
