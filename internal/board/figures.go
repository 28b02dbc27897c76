package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	answerTimeout = 5 * time.Second
	// every is how often pages are told figures; what several pages are told is asked for
	// once.
	every = 2 * time.Second
)

// Figures are how the fabric is.
type Figures struct {
	At      time.Time              `json:"at"`
	Timing  Timing                 `json:"timing"`
	Shards  []Shard                `json:"shards"`
	Keepers []subjects.KeeperStats `json:"keepers"`
	Edges   []Edge                 `json:"edges"`
	Groups  []Group                `json:"groups"`
	Ledger  *subjects.Stats        `json:"ledger"` // nil if none answers
	// Missing says what could not be asked for, and why.
	Missing []string `json:"missing"`
}

// Timing is what leases and their ages are held against.
type Timing struct {
	Renewal  int64 `json:"renewal_ms"`
	LeaseTTL int64 `json:"lease_ttl_ms"`
	Sweep    int64 `json:"sweep_ms"`
	Debounce int64 `json:"debounce_ms"`
}

// An Edge is a gateway with its leases, one for each shard where it has a connection.
type Edge struct {
	Edge    string    `json:"edge"`
	Leases  int       `json:"leases"`
	Started time.Time `json:"started"`
	// Oldest and Newest are how long ago it renewed its leases.
	Oldest int64 `json:"oldest_ms"`
	Newest int64 `json:"newest_ms"`
}

// A Shard has owners of each kind.
type Shard struct {
	Shard  int              `json:"shard"`
	Owners map[string]Owner `json:"owners"`
}

// An Owner is who took a shard over last.
type Owner struct {
	Name       string    `json:"name"`
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
}

// A Group is a worker group.
type Group struct {
	Bucket string `json:"bucket"`
	Name   string `json:"group"`
	cohort.View
}

// figures asks for what pages are told, once for all of them.
type figures struct {
	board *Board
	mu    sync.Mutex
	known *Figures
	at    time.Time
}

func (f *figures) now(ctx context.Context) (*Figures, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known != nil && time.Since(f.at) < every-every/4 {
		return f.known, nil
	}
	// Whoever asks first may leave before others are answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	found, err := f.board.fabric(ctx)
	if err != nil {
		return nil, err
	}
	f.known, f.at = f.board.ask(ctx, found), time.Now()
	return f.known, nil
}

func (b *Board) fabric(ctx context.Context) (fabric.Fabric, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return fabric.Lookup(ctx, b.js, b.cfg.Prefix)
}

func (b *Board) unavailable(w http.ResponseWriter, err error) {
	b.cfg.Logger.Warn("the fabric does not answer", "err", err)
	refuse(w, http.StatusServiceUnavailable, "unavailable", "the fabric does not answer: "+err.Error())
}

// serveFigures streams figures until the page is gone.
func (b *Board) serveFigures(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var out *stream
	for {
		f, err := b.figures.now(ctx)
		switch {
		case err != nil && out == nil:
			b.unavailable(w, err)
			return
		case err != nil:
			err = out.send("trouble", err.Error())
		default:
			if out == nil {
				s := newStream(w)
				out = &s
			}
			err = out.send("figures", f)
		}
		if err != nil {
			return // the page is gone
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// ask asks all parts at once. What does not answer is missing.
func (b *Board) ask(ctx context.Context, found fabric.Fabric) *Figures {
	p := found.Params
	f := &Figures{
		At:      time.Now().UTC(),
		Timing:  Timing{p.Renewal.Milliseconds(), p.LeaseTTL.Milliseconds(), p.Sweep.Milliseconds(), p.Debounce.Milliseconds()},
		Missing: []string{},
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for what, ask := range map[string]func() error{
		"keepers": func() (err error) { f.Keepers, err = b.keepers(ctx, found); return err },
		"edges":   func() (err error) { f.Edges, err = b.edges(ctx, found); return err },
		"shards":  func() (err error) { f.Shards, err = b.owners(ctx, found); return err },
		"groups":  func() (err error) { f.Groups, err = b.groups(ctx); return err },
		"ledger": func() error {
			stats, err := live.Ask(ctx, b.cfg.Conn, b.cfg.Prefix)
			if err == nil {
				f.Ledger = &stats
			}
			return err
		},
	} {
		asking.Go(func() {
			if err := ask(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				f.Missing = append(f.Missing, fmt.Sprintf("%s: %v", what, err))
			}
		})
	}
	asking.Wait()
	slices.Sort(f.Missing)
	return f
}

var errNoKeeper = errors.New("none answers")

// keepers gathers answers until all shards are in them.
func (b *Board) keepers(ctx context.Context, found fabric.Fabric) ([]subjects.KeeperStats, error) {
	inbox := b.cfg.Conn.NewInbox()
	answers, err := b.cfg.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer answers.Unsubscribe()
	if err := b.cfg.Conn.PublishRequest(found.KeeperStats(), inbox, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all := []subjects.KeeperStats{}
	for shards := 0; shards < found.Shards(); {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			if len(all) > 0 && !errors.Is(err, nats.ErrNoResponders) {
				break // shards that nobody owns show as such
			}
			return all, errNoKeeper
		}
		s, err := subjects.DecodeKeeperStats(m.Data)
		if err != nil {
			return all, err
		}
		all, shards = append(all, s), shards+len(s.Shards)
	}
	slices.SortFunc(all, func(a, b subjects.KeeperStats) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Holder, b.Holder))
	})
	return all, nil
}

// edges reads the leases of all shards.
func (b *Board) edges(ctx context.Context, found fabric.Fabric) ([]Edge, error) {
	byID := make(map[string]*Edge)
	for shard := range found.Shards() {
		bucket := found.LeasesBucket(shard)
		err := feed.All(ctx, b.js, subjects.KVStream(bucket), 0, func(m feed.Msg) error {
			var record wire.EdgeRecord
			_, id, err := subjects.ParseKey(subjects.KVKey(bucket, m.Subject))
			if err == nil && !subjects.KVGone(m.Header) {
				err = subjects.Decode(m.Data, &record)
			}
			if err != nil || record.Renewed == 0 {
				return err
			}
			age := max(time.Since(rollcall.Micros(record.Renewed).Time()), 0).Milliseconds()
			e := byID[id]
			if e == nil {
				e = &Edge{Edge: id, Oldest: age, Newest: age, Started: rollcall.Micros(record.Incarnation).Time().UTC()}
				byID[id] = e
			}
			e.Leases++
			e.Oldest, e.Newest = max(e.Oldest, age), min(e.Newest, age)
			return nil
		}, subjects.KVSubject(bucket, subjects.KindEdge+".>"))
		if err != nil {
			return []Edge{}, err
		}
	}
	edges := []Edge{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		edges = append(edges, *byID[id])
	}
	return edges, nil
}

// partGroups are the kinds of parts that own shards.
var partGroups = [...]string{subjects.KeeperGroup, subjects.FanoutGroup, subjects.LedgerGroup}

// owners reads who took each shard over last, of every kind of part.
func (b *Board) owners(ctx context.Context, found fabric.Fabric) ([]Shard, error) {
	shards := make([]Shard, found.Shards())
	for n := range shards {
		shards[n] = Shard{Shard: n, Owners: make(map[string]Owner)}
	}
	for _, group := range partGroups {
		bucket := found.CohortBucket(group)
		err := feed.All(ctx, b.js, subjects.KVStream(bucket), 0, func(m feed.Msg) error {
			var record wire.OwnerRecord
			number, err := strconv.Atoi(strings.TrimPrefix(subjects.KVKey(bucket, m.Subject), subjects.KindShard+"."))
			if err == nil && !subjects.KVGone(m.Header) {
				err = subjects.Decode(m.Data, &record)
			}
			if err == nil && number < len(shards) && record.Generation > 0 {
				shards[number].Owners[group] = Owner{Name: nameOf(&record), Generation: record.Generation, Since: m.Time.UTC()}
			}
			return nil // a record that cannot be read is as good as lost
		}, subjects.KVSubject(bucket, subjects.KindShard+".*"))
		if err != nil {
			return shards, fmt.Errorf("owners of the group %s: %w", group, err)
		}
	}
	return shards, nil
}

// nameOf is how people know an owner: a member by its id, a process that owns all shards
// alone by its name, which ends in a word that makes it unique.
func nameOf(owner *wire.OwnerRecord) string {
	if owner.Member != "" {
		return owner.Member
	}
	name, _, _ := strings.Cut(owner.Holder, " ")
	return name
}

// groups looks at the worker groups, and at those of the parts that share shards out.
func (b *Board) groups(ctx context.Context) ([]Group, error) {
	groups := []Group{}
	for _, bucket := range append([]string{subjects.WorkersBucket}, partGroups[:]...) {
		names, err := cohort.Groups(ctx, b.cfg.Conn, b.cfg.Prefix, bucket)
		if err != nil && !errors.Is(err, cohort.ErrNoGroup) {
			return groups, err
		}
		for _, name := range names {
			g, err := cohort.Open(ctx, b.cfg.Conn, b.cfg.Prefix, bucket, name)
			if err != nil {
				return groups, err
			}
			v, err := g.View(ctx)
			if err != nil {
				return groups, err
			}
			groups = append(groups, Group{bucket, name, v})
		}
	}
	return groups, nil
}
