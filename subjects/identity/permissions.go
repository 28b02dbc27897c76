package identity

import (
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/rollcall-io/rollcall/subjects"
)

// Permissions is what a role may do. In subjects, {{name()}} stands for the name in
// the credential. What is not listed is denied.
type Permissions struct {
	Publish   []string
	Subscribe []string
	// Subscriptions of one connection, and bytes of one message; zero is no limit.
	Subscriptions int
	Payload       int64
}

// own is replaced by the server with the name in the credential.
const own = "{{name()}}"

// id stands for an id while a subject is built. Nothing else in a subject of the
// fabric is upper case.
const id = "ID"

// fill puts a wildcard or a template in the place of the id.
func fill(subject, with string) string { return strings.Replace(subject, id, with, 1) }

// PermissionsOf is what a role may do in a fabric.
func PermissionsOf(names subjects.Names, role Role) Permissions {
	var p Permissions
	switch role {
	case Viewer:
		p = viewerPermissions(names)
	case Device:
		p = devicePermissions(names)
	case Edge:
		p = edgePermissions(names)
	case Door:
		p = doorPermissions(names)
	case Natsgate:
		p = natsgatePermissions(names)
	case Backend:
		p = backendPermissions(names)
	case Ledger:
		p = ledgerPermissions(names)
	case Keeper:
		p = keeperPermissions(names)
	case Fanout:
		p = fanoutPermissions(names)
	case Worker:
		p = workerPermissions(names)
	case Operator:
		return Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	default:
		return Permissions{} // may do nothing
	}
	p.Subscribe = append(p.Subscribe, Inbox(role, own)+".>")
	return p
}

func viewerPermissions(n subjects.Names) Permissions {
	p := Permissions{
		Subscribe: []string{strings.TrimSuffix(fill(n.ViewEventsAll(id), own), "*") + ">"},
		// Events and replies, and some to spare for other clients than ours.
		Subscriptions: 32,
		// A request fits that names ten thousand users by ids of usual length.
		Payload: 1 << 20,
	}
	for _, op := range subjects.Ops {
		p.Publish = append(p.Publish, fill(n.Request(op, id), own))
	}
	for _, op := range subjects.UserPolicyOps {
		p.Publish = append(p.Publish, fill(n.Policy(op, id), own))
	}
	return p
}

// devicePermissions has any operation in it: what there is not is refused by the gate, in words.
func devicePermissions(n subjects.Names) Permissions {
	anyOp := strings.Replace(n.Device("*", id, "x"), id+".x", own, 1)
	return Permissions{Publish: []string{anyOp}, Subscriptions: 8, Payload: 64 << 10}
}

func edgePermissions(n subjects.Names) Permissions {
	p := Permissions{Subscribe: []string{fill(n.EdgeControl(id), own)}}
	for shard := range n.Shards() {
		p.Publish = append(p.Publish,
			fill(n.Log(shard, id), own), fill(n.Beats(shard, id), own),
			// The fabric's timing, the store's clock, and where the own subject stands.
			streamInfo(n.LogStream(shard)), streamGet(n.LogStream(shard)))
	}
	return p
}

// doorPermissions are those of an edge that may ask, once, what a user sees of another. It
// cannot subscribe to anybody's events.
func doorPermissions(n subjects.Names) Permissions {
	p := edgePermissions(n)
	p.Publish = append(p.Publish, n.Requests(subjects.OpGet))
	return p
}

// natsgatePermissions are those of an edge that hears devices, and passes on to other gates what
// devices have sent: a gate believes another one which device that was.
func natsgatePermissions(n subjects.Names) Permissions {
	p := edgePermissions(n)
	p.Publish = append(p.Publish, fill(n.GateRequests(id), "*"), inboxes(Device), inboxes(Natsgate))
	p.Subscribe = append(p.Subscribe, n.Devices(), fill(n.GateRequests(id), own))
	return p
}

func backendPermissions(n subjects.Names) Permissions {
	p := Permissions{
		// Questions of the fanout are answered to its inbox.
		Publish:   []string{n.SightChanged(), inboxes(Fanout), n.Stats()},
		Subscribe: []string{n.Sight()},
	}
	for _, op := range subjects.Ops {
		p.Publish = append(p.Publish, n.Requests(op))
	}
	for _, op := range subjects.PolicyOps {
		p.Publish = append(p.Publish, n.Policies(op))
	}
	return p
}

func ledgerPermissions(n subjects.Names) Permissions {
	p := Permissions{Publish: []string{inboxes(Backend), inboxes(Operator)}, Subscribe: []string{n.Stats()}}
	for shard := range n.Shards() {
		for _, stream := range []string{n.LogStream(shard), n.BeatsStream(shard)} {
			p.Publish = append(p.Publish, reading(stream)...)
			// Where the fabric is archived, the archiver purges what it has.
			p.Publish = append(p.Publish, streamGet(stream), streamPurge(stream))
		}
	}
	p.Publish = append(p.Publish, owning(n, subjects.LedgerGroup)...)
	return p
}

func keeperPermissions(n subjects.Names) Permissions {
	p := Permissions{Publish: []string{fill(n.EdgeControl(id), "*"), inboxes(Operator)}, Subscribe: []string{n.KeeperStats()}}
	for shard := range n.Shards() {
		leases, views := n.LeasesBucket(shard), n.ViewsBucket(shard)
		p.Publish = append(p.Publish, n.Tick(shard), n.Pulse(shard),
			subjects.KVSubject(leases, ">"),
			subjects.KVSubject(views, subjects.KeyOwner), subjects.KVSubject(views, fill(subjects.KeyView(id), "*")))
		p.Publish = append(p.Publish, reading(n.LogStream(shard))...)
		p.Publish = append(p.Publish, streamGet(n.LogStream(shard)))
		p.Publish = append(p.Publish, readingBucket(leases)...)
		p.Publish = append(p.Publish, readingBucket(views)...)
	}
	p.Publish = append(p.Publish, owning(n, subjects.KeeperGroup)...)
	return p
}

func fanoutPermissions(n subjects.Names) Permissions {
	p := Permissions{
		// The first log says how the fabric is made.
		Publish: []string{fill(n.ViewEventsAll(id), "*"), n.Sight(), streamInfo(n.LogStream(0))},
	}
	// What fanouts say to each other.
	for _, subject := range []string{n.SightChanged(), n.Peers(), n.PeersAll()} {
		p.Publish = append(p.Publish, subject)
		p.Subscribe = append(p.Subscribe, subject)
	}
	// Discovery, as every micro service answers it. Not "$SRV.*", under which
	// nats-server admits a subscription to "$SRV.>" as well.
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		p.Subscribe = append(p.Subscribe, "$SRV."+verb, "$SRV."+verb+"."+n.Service(), "$SRV."+verb+"."+n.Service()+".*")
	}
	for _, asker := range []Role{Viewer, Backend, Operator, Fanout, Door} {
		p.Publish = append(p.Publish, inboxes(asker))
	}
	for _, op := range subjects.Ops {
		p.Subscribe = append(p.Subscribe, n.Requests(op))
	}
	for _, op := range subjects.PolicyOps {
		p.Subscribe = append(p.Subscribe, n.Policies(op))
	}
	for shard := range n.Shards() {
		views, interest := n.ViewsBucket(shard), n.InterestBucket(shard)
		p.Subscribe = append(p.Subscribe, n.Pulse(shard))
		p.Publish = append(p.Publish,
			subjects.KVSubject(views, fill(subjects.KeyPolicy(id), "*")), subjects.KVSubject(views, fill(subjects.KeyGroups(id), "*")),
			subjects.KVSubject(interest, ">"))
		p.Publish = append(p.Publish, readingBucket(views)...)
		p.Publish = append(p.Publish, readingBucket(interest)...)
	}
	p.Publish = append(p.Publish, owning(n, subjects.FanoutGroup)...)
	return p
}

// workerPermissions are those of every member of every group of the application: any member
// can be the coordinator of its group, who writes whatever there is.
func workerPermissions(n subjects.Names) Permissions {
	bucket := n.CohortBucket(subjects.WorkersBucket)
	return Permissions{Publish: append(readingBucket(bucket), subjects.KVSubject(bucket, ">"))}
}

// owning is what it takes to own shards, alone or as a member of a group. Any member can be the
// coordinator, who writes all records of the group.
func owning(n subjects.Names, group string) []string {
	bucket := n.CohortBucket(group)
	return append(readingBucket(bucket), subjects.KVSubject(bucket, fill(strings.Replace(subjects.KeyShard(0), "0", id, 1), "*")),
		subjects.KVSubject(bucket, subjects.Token(group)+".>"))
}

// readingBucket is what reading a bucket needs, key by key and as a feed.
func readingBucket(bucket string) []string {
	stream := subjects.KVStream(bucket)
	return append(reading(stream), streamGet(stream), "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+"."+subjects.KVSubject(bucket, ">"))
}

// reading is what following a stream needs: a consumer that nobody acknowledges.
func reading(stream string) []string {
	return []string{
		streamInfo(stream), "$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.INFO." + stream + ".*", "$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
	}
}

func streamInfo(stream string) string  { return "$JS.API.STREAM.INFO." + stream }
func streamGet(stream string) string   { return "$JS.API.STREAM.MSG.GET." + stream }
func streamPurge(stream string) string { return "$JS.API.STREAM.PURGE." + stream }

// scope is how the account's claims say it.
func (p Permissions) scope(role Role, key string) *jwt.UserScope {
	s := jwt.NewUserScope()
	s.Key, s.Role = key, string(role)
	s.Template.Pub.Allow, s.Template.Sub.Allow = p.Publish, p.Subscribe
	if p.Subscriptions > 0 {
		s.Template.Subs = int64(p.Subscriptions)
	}
	if p.Payload > 0 {
		s.Template.Payload = p.Payload
	}
	// No leaf nodes and no MQTT, whose rules are others.
	s.Template.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket, jwt.ConnectionTypeInProcess}
	return s
}
