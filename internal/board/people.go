package board

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	// gather is how long changes are put together before a page is told.
	gather = 500 * time.Millisecond
	// maxNames is how many people a page can watch.
	maxNames = subjects.MaxTargets
)

// people says who has come online and who has left since.
type people struct {
	Came []string `json:"came"`
	Left []string `json:"left"`
	// Online are all, also those that a page is not told of since it cannot watch more.
	Online int `json:"online"`
}

// servePeople streams who is online by name, whatever they may be seen as: what the page
// shows of them it asks as a viewer.
func (b *Board) servePeople(w http.ResponseWriter, r *http.Request) {
	found, err := b.fabric(r.Context())
	if err != nil {
		b.unavailable(w, err)
		return
	}
	out, roll := newStream(w), newRoll()
	group, ctx := errgroup.WithContext(r.Context())
	for shard := range found.Shards() {
		group.Go(func() error { return b.callRoll(ctx, found, shard, roll) })
	}
	group.Go(func() error { return roll.tell(ctx, out) })
	if err := group.Wait(); r.Context().Err() == nil {
		b.cfg.Logger.Warn("people", "err", err) // the page asks again
	}
}

// callRoll follows the views of a shard.
func (b *Board) callRoll(ctx context.Context, found fabric.Fabric, shard int, r *roll) error {
	bucket := found.ViewsBucket(shard)
	cfg := feed.Config{Stream: subjects.KVStream(bucket), Subjects: []string{subjects.KVSubject(bucket, subjects.KindView+".>")}}
	return feed.New(b.js, cfg).Run(ctx, func(_ context.Context, batch feed.Batch) error {
		for _, m := range batch.Msgs {
			var view wire.View
			_, user, err := subjects.ParseKey(subjects.KVKey(bucket, m.Subject))
			if err == nil && !subjects.KVGone(m.Header) {
				err = subjects.Decode(m.Data, &view)
			}
			if err != nil {
				continue // whoever it is, nobody is shown
			}
			r.note(user, isOnline(view.State))
		}
		return nil
	})
}

func isOnline(s wire.State) bool { return s != wire.State_STATE_OFFLINE }

// A roll is who is online, and what of that the page knows.
type roll struct {
	mu      sync.Mutex
	online  map[string]bool
	told    map[string]bool
	changed map[string]bool
	count   int // online, as the page was told
}

func newRoll() *roll {
	return &roll{online: make(map[string]bool), told: make(map[string]bool), changed: make(map[string]bool)}
}

func (r *roll) note(user string, online bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.online[user] == online {
		return
	}
	if online {
		r.online[user] = true
	} else {
		delete(r.online, user)
	}
	r.changed[user] = true
}

// news is what the page has to be told; ok is false for nothing.
func (r *roll) news() (p people, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p = people{Came: []string{}, Left: []string{}, Online: len(r.online)}
	count := p.Online != r.count
	r.count = p.Online
	if len(r.changed) == 0 {
		return p, count
	}
	waiting := make(map[string]bool)
	for _, user := range slices.Sorted(maps.Keys(r.changed)) {
		if !r.online[user] && r.told[user] {
			p.Left = append(p.Left, user)
			delete(r.told, user)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(r.changed)) {
		switch {
		case !r.online[user] || r.told[user]:
		case len(r.told) == maxNames:
			waiting[user] = true
		default:
			p.Came = append(p.Came, user)
			r.told[user] = true
		}
	}
	r.changed = waiting // until others leave
	return p, count || len(p.Came)+len(p.Left) > 0
}

// tell tells the page, who there is at once and then what changes, until it is gone.
func (r *roll) tell(ctx context.Context, out stream) error {
	every := time.NewTicker(gather)
	defer every.Stop()
	for first := true; ; first = false {
		if p, ok := r.news(); ok || first {
			if err := out.send("people", p); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}
