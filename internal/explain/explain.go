package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Query is what is asked.
type Query struct {
	Prefix string // of the fabric
	User   string
	Viewer string // whose view is explained too; empty for nobody's
	Frames int    // at most; 0 for none
	// Back is how long ago frames may lie, Messages how many messages of the log may be read.
	Back     time.Duration
	Messages int
}

// An inquiry collects a report.
type inquiry struct {
	Query
	nc     *nats.Conn
	js     jetstream.JetStream
	fabric fabric.Fabric
	edges  map[string]*wire.EdgeRecord // nil for one without a lease
	report Report
}

// Ask collects what there is to say. nc has an operator's credential.
func Ask(ctx context.Context, nc *nats.Conn, q Query) (Report, error) {
	for _, id := range []string{q.User, q.Viewer} {
		if err := rollcall.CheckID(id); err != nil && id != "" || q.User == "" {
			return Report{}, fmt.Errorf("explain: user %q: %w", id, err)
		}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return Report{}, err
	}
	i := &inquiry{Query: q, nc: nc, js: js, edges: make(map[string]*wire.EdgeRecord)}
	if i.fabric, err = fabric.Lookup(ctx, js, q.Prefix); err != nil {
		return Report{}, err
	}
	i.report = Report{User: q.User, Shard: i.fabric.Shard(q.User), Frames: []Frame{}}
	record, err := i.state(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := i.policy(ctx); err != nil {
		return Report{}, err
	}
	if err := i.frames(ctx); err != nil {
		return Report{}, err
	}
	i.report.Known = record != nil || i.report.Shown != nil
	i.report.Why = i.why(record)
	return i.report, nil
}

// get reads a record of a bucket; it is false if there is none.
func (i *inquiry) get(ctx context.Context, bucket, key string) ([]byte, bool, error) {
	data, _, err := fabric.Last(ctx, i.js, bucket, key)
	if err != nil {
		return nil, false, fmt.Errorf("explain: %s in %s: %w", key, bucket, err)
	}
	return data, data != nil, nil
}

// read reads a record into m; it is false if there is none, or one that cannot be read.
func (i *inquiry) read(ctx context.Context, bucket, key string, m proto.Message) (bool, error) {
	data, there, err := i.get(ctx, bucket, key)
	if err != nil || !there {
		return false, err
	}
	if err := subjects.Decode(data, m); err != nil {
		return false, fmt.Errorf("explain: %s in %s: %w", key, bucket, err)
	}
	return true, nil
}

// state reads what the keeper knows of the user; nil for nothing.
func (i *inquiry) state(ctx context.Context) (*wire.UserRecord, error) {
	shard, r := i.report.Shard, &i.report
	log, err := i.js.Stream(ctx, i.fabric.LogStream(shard))
	if err != nil {
		return nil, fmt.Errorf("explain: log: %w", err)
	}
	r.AsOf = log.CachedInfo().TimeStamp.UTC()
	var view wire.View
	there, err := i.read(ctx, i.fabric.ViewsBucket(shard), subjects.KeyView(i.User), &view)
	if err != nil {
		return nil, err
	}
	if there {
		r.Shown = &Shown{rollcall.State(view.State).String(), view.Activity, timeOf(view.Observed), view.Version}
		r.Seen = timeOf(view.Seen)
	}
	var user wire.UserRecord
	if there, err = i.read(ctx, i.fabric.LeasesBucket(shard), subjects.KeyUser(i.User), &user); err != nil || !there {
		return nil, err
	}
	r.Seen = timeOf(user.Seen)
	if user.OfflineAt != 0 {
		r.Departure = &Departure{rollcall.Way(user.Departure.GetWay()).String(), timeOf(user.Departure.GetSince()), timeOf(user.OfflineAt)}
	}
	for _, ep := range user.Endpoints {
		d := Device{Device: ep.Device, Epoch: timeOf(ep.Epoch)}
		if ep.Current != nil {
			c, err := i.connection(ctx, ep.Current)
			if err != nil {
				return nil, err
			}
			d.Current = &c
		}
		for _, stale := range ep.Stale {
			c, err := i.connection(ctx, stale)
			if err != nil {
				return nil, err
			}
			d.Stale = append(d.Stale, c)
		}
		r.Devices = append(r.Devices, d)
	}
	return &user, nil
}

func (i *inquiry) connection(ctx context.Context, r *wire.UserRecord_Connection) (Connection, error) {
	c := Connection{
		Edge: r.Edge, Number: r.Conn, Epoch: timeOf(r.Epoch), State: rollcall.State(r.State).String(), Activity: r.Activity,
	}
	edge, known := i.edges[r.Edge]
	if !known {
		edge = new(wire.EdgeRecord)
		there, err := i.read(ctx, i.fabric.LeasesBucket(i.report.Shard), subjects.KeyEdge(r.Edge), edge)
		if err != nil {
			return c, err
		}
		if !there {
			edge = nil
		}
		i.edges[r.Edge] = edge
	}
	if edge != nil {
		renewed := timeOf(edge.Renewed)
		c.Lease = &Lease{Renewed: renewed, Ends: renewed.Add(i.fabric.Params.LeaseTTL), Restarted: edge.Incarnation != r.Incarnation}
	}
	return c, nil
}

// policy reads what the user lets be known, and what the viewer is answered.
func (i *inquiry) policy(ctx context.Context) error {
	bucket, r := i.fabric.ViewsBucket(i.report.Shard), &i.report
	record, there, err := i.get(ctx, bucket, subjects.KeyPolicy(i.User))
	if err != nil {
		return err
	}
	if !there {
		record = nil
	}
	groups, err := i.groups(ctx, bucket, i.User)
	if err != nil {
		return err
	}
	stored, damage := fanout.ReadPolicy(i.User, record, groups, r.AsOf)
	if record != nil || len(groups) > 0 {
		r.Policy = &Policy{Policy: stored.Policy, Covered: stored.Covered}
		if damage != nil {
			r.Policy.Damage = damage.Error()
		}
	}
	if i.Viewer == "" {
		return nil
	}
	// A viewer's groups are in the bucket of the target's shard, too.
	if groups, err = i.groups(ctx, bucket, i.Viewer); err != nil {
		return err
	}
	d := stored.Decide(i.Viewer, groups)
	r.Viewer = &Viewer{Viewer: i.Viewer, Rule: d.Rule, Granularity: d.Granularity.String()}
	if d.Default {
		r.Viewer.Granularity = "default"
	}
	r.Viewer.Told, err = i.told(ctx)
	if err != nil {
		r.Viewer.Trouble = err.Error()
	}
	return nil
}

func (i *inquiry) groups(ctx context.Context, bucket, user string) ([]string, error) {
	var w wire.Groups
	_, err := i.read(ctx, bucket, subjects.KeyGroups(user), &w)
	return w.Groups, err
}

// told asks in the viewer's name.
func (i *inquiry) told(ctx context.Context) (*subjects.View, error) {
	body, err := json.Marshal(subjects.Request{Targets: []string{i.User}})
	if err != nil {
		return nil, err
	}
	m, err := i.nc.RequestWithContext(ctx, i.fabric.Request(subjects.OpGet, i.Viewer), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errors.New("no fanout answers")
	case err != nil:
		return nil, fmt.Errorf("no answer of a fanout: %w", err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, fmt.Errorf("refused as %s: %s", code, m.Header.Get(micro.ErrorHeader))
	}
	reply, err := subjects.DecodeReply(m.Data)
	if err != nil {
		return nil, err
	}
	for _, s := range reply.Shards {
		if s.Feed != subjects.FeedLive {
			return nil, fmt.Errorf("shown as unknown: %s", s.Reason)
		}
		for _, v := range s.Views {
			if v.Target == i.User {
				return &v, nil
			}
		}
	}
	return nil, nil
}

func timeOf(m int64) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return rollcall.Micros(m).Time().UTC()
}
