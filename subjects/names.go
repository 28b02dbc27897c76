package subjects

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Defaults of a fabric.
const (
	DefaultPrefix = "presence"
	DefaultShards = 4
	// MaxShards is far above the number of processes that one fabric can use.
	MaxShards = 1024
)

// ErrNames is returned, wrapped with the reason, for names that cannot be built.
var ErrNames = errors.New("subjects: invalid names")

// Names builds every name of one fabric. The zero value is not usable; call [New].
type Names struct {
	prefix string
	shards int
}

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// New returns the names of the fabric with the given prefix and number of shards.
func New(prefix string, shards int) (Names, error) {
	if !prefixPattern.MatchString(prefix) {
		return Names{}, fmt.Errorf("%w: prefix %q must match %s", ErrNames, prefix, prefixPattern)
	}
	if shards < 1 || shards > MaxShards {
		return Names{}, fmt.Errorf("%w: %d shards, must be 1 to %d", ErrNames, shards, MaxShards)
	}
	return Names{prefix, shards}, nil
}

// Prefix is the first token of every subject.
func (n Names) Prefix() string { return n.prefix }

// Shards is how many shards the fabric has.
func (n Names) Shards() int { return n.shards }

// Shard is the shard of a user: fnv1a32(user) mod S, as NATS's partition()
// mapping computes it from a token that is the id itself. For an id that [Token]
// encodes the two differ: NATS would hash the token, Shard hashes the id.
func (n Names) Shard(user string) int {
	h := fnv.New32a()
	io.WriteString(h, user)
	return int(h.Sum32() % uint32(n.shards))
}

// LogStream holds the frames of a shard.
func (n Names) LogStream(shard int) string { return n.stream("LOG", shard) }

// LogSubjects is what the log stream of a shard takes.
func (n Names) LogSubjects(shard int) string { return n.subject("log", strconv.Itoa(shard), "*") }

// Log is where an edge appends its frames.
func (n Names) Log(shard int, edge string) string {
	return n.subject("log", strconv.Itoa(shard), Token(edge))
}

// tickToken is no edge's token: one base64 character encodes nothing.
const tickToken = escape + "t"

// Tick is where keepers append ticks to the log.
func (n Names) Tick(shard int) string { return n.subject("log", strconv.Itoa(shard), tickToken) }

// ParseLog tells whose subject of a log this is; tick is true for the keepers'.
func (n Names) ParseLog(subject string) (edge string, tick bool, err error) {
	token := subject[strings.LastIndexByte(subject, '.')+1:]
	if token == tickToken {
		return "", true, nil
	}
	edge, err = ParseToken(token)
	return edge, false, err
}

// BeatsStream holds the raw heartbeats of a shard.
func (n Names) BeatsStream(shard int) string { return n.stream("BEATS", shard) }

// BeatsSubjects is what the beats stream of a shard takes.
func (n Names) BeatsSubjects(shard int) string { return n.subject("beats", strconv.Itoa(shard), "*") }

// Beats is where an edge appends heartbeats.
func (n Names) Beats(shard int, edge string) string {
	return n.subject("beats", strconv.Itoa(shard), Token(edge))
}

// EdgeControl is where keepers reach an edge.
func (n Names) EdgeControl(edge string) string { return n.subject("edge", Token(edge), "ctl") }

// Pulse is where the keeper of a shard says that it is alive.
func (n Names) Pulse(shard int) string { return n.subject("pulse", strconv.Itoa(shard)) }

// Request is where a viewer sends an operation.
func (n Names) Request(op Op, viewer string) string {
	return n.subject("req", string(op), Token(viewer))
}

// Requests is what the fanout listens on for one operation.
func (n Names) Requests(op Op) string { return n.subject("req", string(op), "*") }

// Policy is where the policy of a user is read and changed.
func (n Names) Policy(op PolicyOp, user string) string {
	return n.subject("policy", string(op), Token(user))
}

// Policies is what the fanout listens on for one operation on policies.
func (n Names) Policies(op PolicyOp) string { return n.subject("policy", string(op), "*") }

// Sight is where the fanout asks an application that keeps its own social graph.
func (n Names) Sight() string { return n.subject("sight", "ask") }

// SightChanged is where that application says that its answers have changed.
func (n Names) SightChanged() string { return n.subject("sight", "changed") }

// Peers is where each fanout says which shards it answers for.
func (n Names) Peers() string { return n.subject("peers", "state") }

// Peer is where a fanout takes its part of a request from another one.
func (n Names) Peer(fanout string) string { return n.subject("peer", Token(fanout), "part") }

// Relay is where a fanout takes a whole request that another one was sent; request
// is the subject on which that came.
func (n Names) Relay(fanout, request string) string {
	return n.subject("peer", Token(fanout), strings.TrimPrefix(request, n.prefix+"."))
}

// HeaderAnswerTo says, on a relayed request, where whoever asked awaits the answer. Its reply
// subject is for the word that it was taken.
const HeaderAnswerTo = "Rollcall-Answer-To"

// PeersAll is everything that one fanout is told by another.
func (n Names) PeersAll() string { return n.subject("peer", ">") }

// Stats is where ledgers answer what they know at the moment: see [Stats].
func (n Names) Stats() string { return n.subject("stats") }

// KeeperStats is where keepers answer what they know at the moment: see [KeeperStats].
func (n Names) KeeperStats() string { return n.subject("stats", "keeper") }

// Device is where a device that speaks NATS sends an operation.
func (n Names) Device(op DeviceOp, user, device string) string {
	return n.subject("device", string(op), Token(user), Token(device))
}

// Devices is what gates listen on.
func (n Names) Devices() string { return n.subject("device", "*", "*", "*") }

// GateRequest is where a gate passes on what a device has sent, to the gate that has its
// session; gate is a token.
func (n Names) GateRequest(gate string, op DeviceOp, user, device string) string {
	return n.subject("gate", gate, string(op), Token(user), Token(device))
}

// GateRequests is where a gate is passed on what devices have sent to others.
func (n Names) GateRequests(gate string) string { return n.subject("gate", Token(gate), "*", "*", "*") }

// ParseDevice tells which device sends what, of a subject of Device or GateRequest.
func (n Names) ParseDevice(subject string) (op DeviceOp, user, device string, err error) {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 3 {
		return "", "", "", fmt.Errorf("%w: %q is no subject of a device", ErrNames, subject)
	}
	tokens = tokens[len(tokens)-3:]
	if user, err = ParseToken(tokens[1]); err == nil {
		device, err = ParseToken(tokens[2])
	}
	return DeviceOp(tokens[0]), user, device, err
}

// ParseRequest tells which viewer, or whose policy, a request's subject names.
func (n Names) ParseRequest(subject string) (viewer string, err error) {
	return ParseToken(subject[strings.LastIndexByte(subject, '.')+1:])
}

// ViewEvents is where a viewer hears of its targets in one shard.
func (n Names) ViewEvents(viewer string, shard int) string {
	return n.subject("view", Token(viewer), strconv.Itoa(shard))
}

// ViewEventsAll is what a viewer subscribes to.
func (n Names) ViewEventsAll(viewer string) string { return n.subject("view", Token(viewer), "*") }

// Service is the name of the micro service that answers requests.
func (n Names) Service() string { return n.prefix }

// LeasesBucket holds the keeper's records of a shard.
func (n Names) LeasesBucket(shard int) string { return n.bucket("leases", shard) }

// ViewsBucket holds the users' states and policies of a shard.
func (n Names) ViewsBucket(shard int) string { return n.bucket("views", shard) }

// InterestBucket holds the viewers' subscriptions in a shard.
func (n Names) InterestBucket(shard int) string { return n.bucket("interest", shard) }

// CohortBucket holds the ownership records of a worker group. A bucket's name must
// not contain the '=' of an encoded token, so that "--" stands in its place.
func (n Names) CohortBucket(group string) string {
	const bucketEscape = "--"
	if !plain(group) || strings.HasPrefix(group, bucketEscape) {
		group = bucketEscape + strict.EncodeToString([]byte(group))
	}
	return n.prefix + "_cohort_" + group
}

func (n Names) subject(tokens ...string) string {
	return n.prefix + "." + strings.Join(tokens, ".")
}

func (n Names) stream(kind string, shard int) string {
	return strings.ToUpper(n.prefix) + "_" + kind + "_" + strconv.Itoa(shard)
}

func (n Names) bucket(kind string, shard int) string {
	return n.prefix + "_" + kind + "_" + strconv.Itoa(shard)
}
