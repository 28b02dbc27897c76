package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/subjects"
)

// growOwners measures opens while one, two and four processes' worth of keepers and fanouts share
// the shards.
func (r *runner) growOwners(ctx context.Context) error {
	for _, owners := range []int{1, 2, 4} {
		cost, err := r.ownersCost(ctx, owners)
		if err != nil {
			return fmt.Errorf("%d owners: %w", owners, err)
		}
		r.figures.Growth.Owners = append(r.figures.Growth.Owners, cost)
	}
	return r.sound()
}

func (r *runner) ownersCost(ctx context.Context, owners int) (OwnersCost, error) {
	cost := OwnersCost{Owners: owners}
	st, err := r.raise(ctx, fmt.Sprintf("bench_owners_%d", owners), cast{params: patientParams(), edges: openEdges, owners: owners})
	if err != nil {
		return cost, err
	}
	defer st.strike()
	nc, err := st.open("viewers")
	if err != nil {
		return cost, err
	}
	if _, err := st.openRound(nc, "warm", max(r.Opens/10, 1)); err != nil {
		return cost, err
	}
	err = r.openAmong(st, nc, &cost)
	return cost, err
}

func (r *runner) openAmong(st *stage, nc *nats.Conn, cost *OwnersCost) error {
	var took, busy time.Duration
	var written sequences
	before := st.framesApplied()
	for i := range rounds {
		r.say("growth: %d owners, round %d of %d, %d users", cost.Owners, i+1, rounds, r.Opens)
		since := processorTime()
		opened, err := st.openRound(nc, fmt.Sprintf("r%d", i), r.Opens)
		if err != nil {
			return err
		}
		used := processorTime() - since
		cost.Visible.add(int64(r.Opens), opened.took)
		cost.Busy.append(microseconds(used) / float64(r.Opens))
		took, busy = took+opened.took, busy+used
		written.kv += opened.written.kv
	}
	cost.PerOwner = round(cost.Visible.Median/float64(cost.Owners), 1)
	cost.Frames = round(float64(st.framesApplied()-before)/took.Seconds(), 1)
	cost.KVWrites = round(float64(written.kv)/float64(rounds*r.Opens), 4)
	cost.Cores = round(busy.Seconds()/took.Seconds(), 2)
	return nil
}

func (st *stage) framesApplied() (n uint64) {
	for _, k := range st.keepers {
		n += k.Stats().Frames
	}
	return n
}

// startOwners starts keepers and fanouts that share the shards, and waits until each has its share.
func (st *stage) startOwners(n int) error {
	for i := range n {
		if err := st.startKeeperAs(fmt.Sprint("keeper-", i)); err != nil {
			return err
		}
		if err := st.startFanoutAs(fmt.Sprint("fanout-", i), 0); err != nil {
			return err
		}
	}
	for _, kind := range []string{subjects.KeeperGroup, subjects.FanoutGroup} {
		if err := await(st.ctx, "an equal share for each "+kind, func() bool { return st.shared(kind, n) }); err != nil {
			return err
		}
	}
	return await(st.ctx, "the keepers", func() bool {
		return !slices.ContainsFunc(st.keepers, func(k *keeper.Keeper) bool { return !k.Ready() })
	})
}

// shared says whether so many members of a group own equally many shards.
func (st *stage) shared(kind string, members int) bool {
	group, err := cohort.Open(st.ctx, st.js.Conn(), st.Prefix(), kind, kind)
	if err != nil {
		return false // nobody has joined yet
	}
	parts, err := group.Parts(st.ctx)
	if err != nil {
		return false
	}
	shares := make(map[string]int)
	for _, p := range parts {
		shares[p.Owner]++
	}
	for _, share := range shares {
		if share != st.Shards()/members {
			return false
		}
	}
	return len(shares) == members
}
