package stage

import (
	"context"
	"slices"
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

// Another joins the registry of this member.
func (m *Member) Another() *Member { return m.registry.Join() }

// Take makes this member the owner of a shard: see [Registry.Give].
func (m *Member) Take(shard int, rough bool) { m.registry.Give(shard, m, rough) }

// Owns lists the shards that the member owns as far as the registry knows.
func (m *Member) Owns() (all []int) {
	m.registry.mu.Lock()
	defer m.registry.mu.Unlock()
	for shard, holder := range m.registry.holders {
		if holder == m {
			all = append(all, shard)
		}
	}
	slices.Sort(all)
	return all
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
// until they know of each other.
func (s *Stage) StartSeveral(n int, cfg fanout.Config) []*Running {
	s.T.Helper()
	registry := NewRegistry()
	running := make([]*Running, n)
	for i := range running {
		m := registry.Join()
		for shard := i; shard < s.Fabric.Shards(); shard += n {
			m.Take(shard, false)
		}
		running[i] = s.StartMember(m, cfg)
	}
	time.Sleep(time.Second)
	return running
}

// StartMember runs a fanout that owns what a registry gives it, and waits until it
// answers for that.
func (s *Stage) StartMember(m *Member, cfg fanout.Config) *Running {
	s.T.Helper()
	r := s.LaunchMember(m, cfg)
	s.await(r)
	return r
}

// LaunchMember does not wait.
func (s *Stage) LaunchMember(m *Member, cfg fanout.Config) *Running {
	s.T.Helper()
	cfg.Ownership = m
	r := s.Launch(cfg)
	r.Member = m
	return r
}
