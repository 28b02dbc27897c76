package keeper

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
)

// answer tells operators who ask what this keeper knows, until stop is called.
func (k *Keeper) answer(f fabric.Fabric) (stop func(), err error) {
	asked, err := k.nc.Subscribe(f.KeeperStats(), func(m *nats.Msg) {
		if err := k.reply(m, f); err != nil {
			k.cfg.Logger.Warn("answering a request for figures", "err", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	return func() { asked.Unsubscribe() }, nil
}

// reply answers into inboxes only: whoever asks names the subject, and it must not be a
// record that the keeper may write.
func (k *Keeper) reply(m *nats.Msg, f fabric.Fabric) error {
	if !strings.HasPrefix(m.Reply, nats.InboxPrefix) {
		return fmt.Errorf("no inbox: %q", m.Reply)
	}
	body, err := json.Marshal(k.figures(f))
	if err != nil {
		return err
	}
	return m.Respond(body)
}

func (k *Keeper) figures(f fabric.Fabric) subjects.KeeperStats {
	s := subjects.KeeperStats{
		At: time.Now().UTC(), Since: k.since.UTC(), Holder: k.cfg.Holder, Member: k.cfg.Member, ShardsTotal: f.Shards(),
		Shards: []subjects.KeeperShard{}, Counters: counters(k.Stats()), Ways: k.tallies.figures(f.Params.Bounds()),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(k.shards)) {
		shard := k.shards[number]
		now := shard.stats()
		s.Shards = append(s.Shards, subjects.KeeperShard{
			Shard: number, Generation: shard.grant.Generation, Ready: shard.caughtUp.Load(),
			Users: now.Users, Online: now.Online, Connections: now.Connections, Leases: now.Leases,
		})
	}
	return s
}

// counters are those of the statistics, named as in the metrics.
func counters(stats machine.Stats) map[string]uint64 {
	all := make(map[string]uint64)
	v := reflect.ValueOf(stats)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Uint64 {
			all[snake(v.Type().Field(i).Name)] = f.Uint()
		}
	}
	return all
}

// tallies are the measured latencies of every way of leaving.
type tallies struct {
	mu  sync.Mutex
	all map[rollcall.Way]*tally
}

type tally struct {
	count, early, late uint64
	min, max, sum      time.Duration
}

func (t *tallies) add(way rollcall.Way, latency time.Duration, bound rollcall.Window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[rollcall.Way]*tally)
	}
	one := t.all[way]
	if one == nil {
		one = &tally{min: latency}
		t.all[way] = one
	}
	one.count++
	one.sum += latency
	one.min, one.max = min(one.min, latency), max(one.max, latency)
	switch {
	case latency < bound.Earliest:
		one.early++
	case latency > bound.Latest+allowance:
		one.late++
	}
}

// figures are of every way that has a bound.
func (t *tallies) figures(bounds rollcall.Bounds) (all []subjects.KeeperWay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, way := range ways {
		window, ok := bounds.Of(way)
		if !ok {
			continue
		}
		w := subjects.KeeperWay{Way: way.String(), Earliest: window.Earliest.Milliseconds(), Latest: window.Latest.Milliseconds()}
		if one := t.all[way]; one != nil {
			w.Count, w.Early, w.Late = one.count, one.early, one.late
			w.Min, w.Max, w.Mean = one.min.Milliseconds(), one.max.Milliseconds(), (one.sum / time.Duration(one.count)).Milliseconds()
		}
		all = append(all, w)
	}
	return all
}
