package e2e_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A decision says who may do what with one subject; everybody else may not. The
// operator, who may do everything, is not listed.
type decision struct {
	subject            string
	publish, subscribe []identity.Role
}

type matrix struct {
	names     subjects.Names
	decisions []decision
	decided   map[string]bool // methods of subjects.Names
}

// decide takes the methods of subjects.Names that a group of decisions is about.
func (m *matrix) decide(methods string, decisions ...decision) {
	for _, method := range strings.Fields(methods) {
		m.decided[method] = true
	}
	m.decisions = append(m.decisions, decisions...)
}

func by(roles ...identity.Role) []identity.Role { return roles }

var nobody []identity.Role

// doors hold connections of devices.
var doors = by(identity.Edge, identity.Door, identity.Natsgate)

// Everybody in the matrix has the same id, so that nothing hangs on ids being different
// between roles; you is somebody else of any role.
const (
	me, you = "me", "you"
	phone   = "phone"
)

func named(role identity.Role, id string) []string {
	if role == identity.Device {
		return []string{id, phone}
	}
	return []string{id}
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	names, err := subjects.New(subjects.DefaultPrefix, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := &matrix{names: names, decided: make(map[string]bool)}
	for shard := range names.Shards() {
		m.decideShard(shard)
	}
	m.decideWhatIsNotThere(names.Shards())
	m.decideRequests()
	m.decidePolicies()
	m.decidePeers()
	m.decideStats()
	m.decideEdges()
	m.decideViews()
	m.decideBuckets()
	m.decideInboxes()
	m.decideServer()
	return m
}

func (m *matrix) decideShard(shard int) {
	n := m.names
	m.decide("Log LogSubjects Tick Beats BeatsSubjects Pulse",
		decision{n.Log(shard, me), doors, nobody},
		decision{n.Log(shard, you), nobody, nobody},
		decision{n.LogSubjects(shard), nobody, nobody},
		decision{n.Tick(shard), by(identity.Keeper), nobody},
		decision{n.Beats(shard, me), doors, nobody},
		decision{n.Beats(shard, you), nobody, nobody},
		decision{n.BeatsSubjects(shard), nobody, nobody},
		decision{n.Pulse(shard), by(identity.Keeper), by(identity.Fanout)},
	)
	log := append(by(identity.Keeper, identity.Ledger), doors...)
	info := log
	if shard == 0 {
		info = append(by(identity.Fanout), log...) // which looks the fabric up there
	}
	m.decide("LogStream", decision{"$JS.API.STREAM.INFO." + n.LogStream(shard), info, nobody},
		decision{"$JS.API.STREAM.MSG.GET." + n.LogStream(shard), log, nobody},
		decision{"$JS.API.DIRECT.GET." + n.LogStream(shard), nobody, nobody})
	m.decide("BeatsStream", decision{"$JS.API.STREAM.INFO." + n.BeatsStream(shard), by(identity.Ledger), nobody},
		decision{"$JS.API.STREAM.MSG.GET." + n.BeatsStream(shard), by(identity.Ledger), nobody},
		decision{"$JS.API.DIRECT.GET." + n.BeatsStream(shard), nobody, nobody})
	m.decideStream(n.LogStream(shard), by(identity.Keeper, identity.Ledger), by(identity.Ledger))
	m.decideStream(n.BeatsStream(shard), by(identity.Ledger), by(identity.Ledger))
}

// decideStream says who may read a stream, and who may purge what it holds; nobody but
// the operator may change one in another way.
func (m *matrix) decideStream(stream string, readers, purgers []identity.Role) {
	m.decide("", decision{"$JS.API.STREAM.PURGE." + stream, purgers, nobody})
	for _, call := range []string{"CONSUMER.CREATE.%s.c", "CONSUMER.CREATE.%s.c.presence.>", "CONSUMER.INFO.%s.c", "CONSUMER.MSG.NEXT.%s.c"} {
		m.decide("", decision{"$JS.API." + fmt.Sprintf(call, stream), readers, nobody})
	}
	for _, call := range []string{
		"STREAM.CREATE.%s", "STREAM.UPDATE.%s", "STREAM.DELETE.%s", "STREAM.MSG.DELETE.%s", "STREAM.SNAPSHOT.%s",
		"STREAM.RESTORE.%s", "CONSUMER.CREATE.%s", "CONSUMER.DURABLE.CREATE.%s.c", "CONSUMER.DELETE.%s.c", "CONSUMER.NAMES.%s", "CONSUMER.LIST.%s",
		"CONSUMER.PAUSE.%s.c", "CONSUMER.RESET.%s.c",
	} {
		m.decide("", decision{"$JS.API." + fmt.Sprintf(call, stream), nobody, nobody})
	}
	m.decide("", decision{"$JS.ACK." + stream + ".c.1.1.1.1.0", nobody, nobody})
}

// decideWhatIsNotThere is about a shard beyond the last.
func (m *matrix) decideWhatIsNotThere(shard int) {
	n := m.names
	m.decide("", decision{n.Log(shard, me), nobody, nobody}, decision{n.Tick(shard), nobody, nobody}, decision{n.Pulse(shard), nobody, nobody},
		decision{"$JS.API.STREAM.INFO." + n.LogStream(shard), nobody, nobody},
		decision{subjects.KVSubject(n.ViewsBucket(shard), subjects.KeyView(me)), nobody, nobody})
}

func (m *matrix) decideRequests() {
	n := m.names
	for _, op := range subjects.Ops {
		anybodys := by(identity.Backend)
		if op == subjects.OpGet { // which leaves nothing behind
			anybodys = by(identity.Backend, identity.Door)
		}
		m.decide("Request Requests Service",
			decision{n.Request(op, me), append(by(identity.Viewer), anybodys...), by(identity.Fanout)},
			decision{n.Request(op, you), anybodys, by(identity.Fanout)},
			decision{n.Requests(op), anybodys, by(identity.Fanout)})
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		m.decide("", decision{"$SRV." + verb, nobody, by(identity.Fanout)},
			decision{"$SRV." + verb + "." + n.Service(), nobody, by(identity.Fanout)},
			decision{"$SRV." + verb + "." + n.Service() + ".id", nobody, by(identity.Fanout)},
			decision{"$SRV." + verb + ".other", nobody, nobody})
	}
	m.decide("Sight SightChanged", decision{n.Sight(), by(identity.Fanout), by(identity.Backend)},
		decision{n.SightChanged(), by(identity.Backend, identity.Fanout), by(identity.Fanout)})
}

// decidePeers: what fanouts say to each other is for nobody else, since a request that
// one relays is believed to come from the viewer that it names.
func (m *matrix) decidePeers() {
	n, fanouts := m.names, by(identity.Fanout)
	m.decide("Peers Peer Relay PeersAll", decision{n.Peers(), fanouts, fanouts}, decision{n.Peer(you), fanouts, fanouts},
		decision{n.Relay(you, n.Request(subjects.OpGet, me)), fanouts, fanouts}, decision{n.PeersAll(), nil, fanouts},
		decision{n.Peers() + "." + me, nobody, nobody})
}

// decideStats: figures about everybody are for those who run the application.
func (m *matrix) decideStats() {
	m.decide("Stats KeeperStats", decision{m.names.Stats(), by(identity.Backend), by(identity.Ledger)},
		decision{m.names.KeeperStats(), nobody, by(identity.Keeper)},
		decision{m.names.Stats() + "." + me, nobody, nobody})
}

// usersOwn are the operations on a policy that its user may carry out. The list is not
// subjects.UserPolicyOps on purpose: who adds one there must decide here too.
var usersOwn = []subjects.PolicyOp{"get", "set", "allow", "reset", "block", "unblock", "contact", "uncontact", "status", "clear"}

func (m *matrix) decidePolicies() {
	n := m.names
	for _, op := range subjects.PolicyOps {
		mine := by(identity.Backend)
		if slices.Contains(usersOwn, op) {
			mine = by(identity.Viewer, identity.Backend)
		}
		m.decide("Policy Policies", decision{n.Policy(op, me), mine, by(identity.Fanout)},
			decision{n.Policy(op, you), by(identity.Backend), by(identity.Fanout)},
			decision{n.Policies(op), by(identity.Backend), by(identity.Fanout)})
	}
}

func (m *matrix) decideEdges() {
	n := m.names
	m.decide("EdgeControl Device Devices GateRequest GateRequests", decision{n.EdgeControl(me), by(identity.Keeper), doors},
		decision{n.EdgeControl(you), by(identity.Keeper), nobody},
		decision{"presence.edge.*.ctl", by(identity.Keeper), nobody},
		decision{n.Device(subjects.DeviceOpen, me, phone), by(identity.Device), by(identity.Natsgate)},
		decision{n.Device("unheard-of", me, phone), by(identity.Device), by(identity.Natsgate)},
		decision{n.Device(subjects.DeviceOpen, me, "tablet"), nobody, by(identity.Natsgate)},
		decision{n.Device(subjects.DeviceOpen, you, phone), nobody, by(identity.Natsgate)},
		decision{"presence.device.open." + me, nobody, nobody},
		decision{n.Devices(), nobody, by(identity.Natsgate)},
		decision{"presence.device.>", nobody, nobody},
		decision{n.GateRequest(me, subjects.DeviceOpen, you, phone), by(identity.Natsgate), by(identity.Natsgate)},
		decision{n.GateRequest(you, subjects.DeviceOpen, me, phone), by(identity.Natsgate), nobody},
		decision{n.GateRequests(me), by(identity.Natsgate), by(identity.Natsgate)},
		decision{n.GateRequests(you), by(identity.Natsgate), nobody},
		decision{"presence.gate.>", nobody, nobody})
}

func (m *matrix) decideViews() {
	n := m.names
	m.decide("ViewEvents ViewEventsAll", decision{n.ViewEvents(me, 0), by(identity.Fanout), by(identity.Viewer)},
		decision{n.ViewEvents(you, 0), by(identity.Fanout), nobody},
		decision{n.ViewEventsAll(me), by(identity.Fanout), by(identity.Viewer)},
		decision{n.ViewEventsAll(you), by(identity.Fanout), nobody},
		decision{"presence.view." + me + ".>", nobody, by(identity.Viewer)},
		decision{"presence.view.*.0", by(identity.Fanout), nobody}, decision{"presence.view.*.*", by(identity.Fanout), nobody},
		decision{"presence.view.>", nobody, nobody})
}

func (m *matrix) decideBuckets() {
	n := m.names
	m.decide("LeasesBucket ViewsBucket InterestBucket CohortBucket")
	key := func(bucket, key string, writers ...identity.Role) {
		m.decide("", decision{subjects.KVSubject(bucket, key), writers, nobody})
	}
	reads := func(bucket string, readers ...identity.Role) {
		stream := subjects.KVStream(bucket)
		m.decideStream(stream, readers, nobody)
		m.decide("", decision{"$JS.API.STREAM.INFO." + stream, readers, nobody},
			decision{"$JS.API.STREAM.MSG.GET." + stream, readers, nobody},
			decision{"$JS.API.DIRECT.GET." + stream, readers, nobody},
			decision{"$JS.API.DIRECT.GET." + stream + "." + subjects.KVSubject(bucket, "a.key"), readers, nobody},
			decision{subjects.KVSubject(bucket, ">"), nil, nobody})
	}
	for shard := range n.Shards() {
		leases, views, interest := n.LeasesBucket(shard), n.ViewsBucket(shard), n.InterestBucket(shard)
		reads(leases, identity.Keeper)
		for _, k := range []string{subjects.KeyOwner, subjects.KeyCheckpoint, subjects.KeyEdge(you), subjects.KeyUser(you)} {
			key(leases, k, identity.Keeper)
		}
		reads(views, identity.Keeper, identity.Fanout)
		key(views, subjects.KeyOwner, identity.Keeper)
		key(views, subjects.KeyView(me), identity.Keeper)
		key(views, subjects.KeyPolicy(me), identity.Fanout)
		key(views, subjects.KeyGroups(me), identity.Fanout)
		key(views, "other."+me)
		reads(interest, identity.Fanout)
		key(interest, subjects.KeyOwner, identity.Fanout)
		key(interest, subjects.KeyInterest(me, 0), identity.Fanout)
	}
	for role, group := range map[identity.Role]string{
		identity.Keeper: subjects.KeeperGroup, identity.Fanout: subjects.FanoutGroup, identity.Ledger: subjects.LedgerGroup,
	} {
		bucket := n.CohortBucket(group)
		reads(bucket, role)
		for _, k := range []string{
			subjects.KeyShard(0), subjects.KeyCohort(group, subjects.CohortPlanKind), subjects.KeyCohortMember(group, you), subjects.KeyCohortPart(group, 0),
		} {
			key(bucket, k, role)
		}
		key(bucket, subjects.KeyCohort("other", subjects.CohortPlanKind))
	}
	workers := n.CohortBucket(subjects.WorkersBucket)
	reads(workers, identity.Worker)
	for _, k := range []string{
		subjects.KeyCohort(me, subjects.CohortPlanKind), subjects.KeyCohortMember(me, me), subjects.KeyCohortMember(you, you), subjects.KeyCohortPart(me, 0),
	} {
		key(workers, k, identity.Worker)
	}
	reads(n.CohortBucket("others"))
	key(n.CohortBucket("others"), subjects.KeyCohort(me, subjects.CohortPlanKind))
}

func (m *matrix) decideInboxes() {
	answer := map[identity.Role][]identity.Role{
		identity.Viewer: by(identity.Fanout), identity.Door: by(identity.Fanout), identity.Backend: by(identity.Fanout, identity.Ledger), identity.Operator: by(identity.Keeper, identity.Fanout, identity.Ledger),
		identity.Fanout: by(identity.Backend, identity.Fanout), identity.Device: by(identity.Natsgate), identity.Natsgate: by(identity.Natsgate),
	}
	for _, role := range identity.Roles {
		for _, id := range []string{me, you} {
			readers := nobody
			if id == me {
				readers = by(role)
			}
			name := strings.Join(named(role, id), ".")
			m.decide("", decision{identity.Inbox(role, name) + ".reply", answer[role], readers},
				decision{identity.Inbox(role, name) + ".>", answer[role], readers})
		}
		m.decide("", decision{identity.Inbox(role, ">"), nil, nobody}, decision{identity.Inbox(role, "*") + ".>", answer[role], nobody})
	}
	m.decide("", decision{"_INBOX.>", nobody, nobody}, decision{"_INBOX.*.>", nobody, nobody}, decision{"_INBOX.reply", nobody, nobody},
		decision{"_INBOX_" + me + ".>", nobody, nobody})
}

func (m *matrix) decideServer() {
	for _, subject := range []string{
		">", "*", "*.>", "presence.>", "presence.*", "presence.*.*", "presence.*.*.*", "presence.req.>", "presence.policy.>", "presence.log.>",
		"presence.beats.>", "presence.pulse.>", "presence.sight.>", "presence.unknown", "presence", "other.req.get." + me, "orders.new", "$SRV.>",
		"$SYS.>", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$JS.>", "$JS.API.>", "$JS.API.INFO",
		"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.MINE", "$JS.EVENT.>", "$JS.ACK.>", "$KV.>", "$KV.*.>",
		"$KV.other.key", "$O.other.key", "$G.x", "_R_.x", "_GR_.x",
	} {
		m.decide("", decision{subject, nobody, nobody})
	}
}

// TestRoleMatrix asks a real server about every role and every subject, allowed or not.
func TestRoleMatrix(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		m := newMatrix(t)
		server := lab.NewServerWithIdentities(t, m.names)
		for _, role := range identity.Roles {
			quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			nc := lab.Connect(t, server.NewLink(), append(server.As(role, named(role, me)...), quiet)...)
			p := &prober{t: t, role: role, nc: nc}
			denied := 0
			for _, d := range m.decisions {
				denied += p.probe(d)
			}
			t.Logf("%s: %d of %d denied", role, denied, 2*len(m.decisions))
		}
	})
}

// A prober is a connection of one role.
type prober struct {
	t    *testing.T
	role identity.Role
	nc   *nats.Conn
}

// probe returns how much was denied.
func (p *prober) probe(d decision) (denied int) {
	p.t.Helper()
	for _, verb := range []struct {
		what    string
		allowed []identity.Role
		do      func(string) bool
	}{{"publish to", d.publish, p.mayPublish}, {"subscribe to", d.subscribe, p.maySubscribe}} {
		if verb.what == "publish to" && strings.HasPrefix(d.subject, "_R_") || strings.HasPrefix(d.subject, "_GR_") {
			continue // the server keeps them from everybody
		}
		want := p.role == identity.Operator || slices.Contains(verb.allowed, p.role)
		if verb.what == "publish to" && strings.Contains(d.subject, ">") && d.publish == nil {
			continue // nobody can publish to a full wildcard that stands for an allowed one
		}
		got := verb.do(d.subject)
		if got != want {
			p.t.Errorf("%s: may %s %s: %v, want %v", p.role, verb.what, d.subject, got, want)
		}
		if !got {
			denied++
		}
	}
	return denied
}

func (p *prober) mayPublish(subject string) bool {
	p.t.Helper()
	if err := p.nc.Publish(subject, nil); err != nil {
		p.t.Fatal(err)
	}
	return !p.refused(fmt.Sprintf("Publish to %q", subject))
}

func (p *prober) maySubscribe(subject string) bool {
	p.t.Helper()
	sub, err := p.nc.SubscribeSync(subject)
	if err != nil {
		p.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	return !p.refused(fmt.Sprintf("Subscription to %q", subject))
}

// refused says whether the server's last error is this one. No subject is tried twice,
// so an older error is never taken for it.
func (p *prober) refused(what string) bool {
	p.t.Helper()
	if err := p.nc.Flush(); err != nil {
		p.t.Fatalf("%s: %s: %v", p.role, what, err)
	}
	err := p.nc.LastError()
	return err != nil && strings.Contains(err.Error(), what)
}

func TestNoSubjectIsDecidedTwice(t *testing.T) {
	seen := make(map[string]bool)
	for _, d := range newMatrix(t).decisions {
		if seen[d.subject] {
			t.Errorf("%s", d.subject)
		}
		seen[d.subject] = true
	}
}

// A new subject needs a decision.
func TestEverySubjectIsDecided(t *testing.T) {
	m := newMatrix(t)
	names := reflect.TypeFor[subjects.Names]()
	for i := range names.NumMethod() {
		method := names.Method(i).Name
		switch method {
		case "Prefix", "Shards", "Shard", "ParseLog", "ParseRequest", "ParseDevice": // name nothing
			continue
		}
		if !m.decided[method] {
			t.Errorf("subjects.Names.%s: who may publish, who may subscribe? Decide in the matrix and in package identity.", method)
		}
	}
	if len(identity.Roles) != 11 {
		t.Errorf("%d roles: decide for the new one", len(identity.Roles))
	}
}
