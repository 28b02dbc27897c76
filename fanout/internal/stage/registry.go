package stage

import (
	"context"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
)

// A Registry hands shards out to several fanouts as the test says.
type Registry struct {
	mu      sync.Mutex
	last    map[int]uint64 // the last generation of each shard
	holders map[int]*Member
}

// NewRegistry is one in which nobody owns anything.
func NewRegistry() *Registry {
	return &Registry{last: make(map[int]uint64), holders: make(map[int]*Member)}
}

// A Member is what one fanout owns. It implements [rollcall.Ownership].
type Member struct {
	registry *Registry
	changed  chan struct{} // holds at most one
	// Guarded by the registry's mutex: what to run, and how to end what runs.
	wanted map[int]uint64
	ends   map[int]context.CancelFunc
}

var _ rollcall.Ownership = (*Member)(nil)

// Join adds a member that owns nothing yet.
func (r *Registry) Join() *Member {
	return &Member{registry: r, changed: make(chan struct{}, 1), wanted: make(map[int]uint64), ends: make(map[int]context.CancelFunc)}
}

// Give makes a member the owner of a shard. The owner before is told to stop first, or,
// if the handover is rough, hears nothing and has to notice.
func (r *Registry) Give(shard int, to *Member, rough bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from := r.holders[shard]; from != nil {
		delete(from.wanted, shard)
		if end := from.ends[shard]; end != nil && !rough {
			end()
		}
	}
	r.holders[shard] = to
	r.grantLocked(shard, to)
}

func (r *Registry) grantLocked(shard int, to *Member) {
	r.last[shard] = rollcall.NextGeneration(r.last[shard], time.Now())
	to.wanted[shard] = r.last[shard]
	select {
	case to.changed <- struct{}{}:
	default:
	}
}

// Own implements [rollcall.Ownership].
func (m *Member) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		m.registry.mu.Lock()
		for shard, generation := range m.wanted {
			if m.ends[shard] == nil {
				ctx, end := context.WithCancel(ctx)
				m.ends[shard] = end
				running.Go(func() {
					defer m.ended(ctx, end, shard)
					run(ctx, rollcall.Grant{Shard: shard, Generation: generation})
				})
			}
		}
		m.registry.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.changed:
		}
	}
}

// ended grants a shard anew that the member still owns, after a pause.
func (m *Member) ended(ctx context.Context, end func(), shard int) {
	pause := time.NewTimer(100 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	end()
	m.registry.mu.Lock()
	defer m.registry.mu.Unlock()
	delete(m.ends, shard)
	if m.registry.holders[shard] == m {
		m.registry.grantLocked(shard, m)
	}
}

// StartSeveral runs several fanouts among which the shards are shared out, and waits
// until each answers for all of them.
func (s *Stage) StartSeveral(n int, cfg fanout.Config) []*Running {
	s.T.Helper()
	registry := NewRegistry()
	members := make([]*Member, n)
	for i := range members {
		members[i] = registry.Join()
	}
	for shard := range s.Fabric.Shards() {
		registry.Give(shard, members[shard%n], false)
	}
	running := make([]*Running, n)
	for i, m := range members {
		cfg.Ownership = m
		running[i] = s.Start(cfg)
	}
	time.Sleep(time.Second) // they hear of each other
	return running
}
