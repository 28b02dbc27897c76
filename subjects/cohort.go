package subjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
)

// WorkersBucket names the bucket, as [Names.CohortBucket] takes it, in which the groups of
// applications lie side by side.
const WorkersBucket = "workers"

// The groups of the fabric itself, whose members share its shards out among themselves. Each has
// a bucket of its own, of the same name.
const (
	KeeperGroup = "keeper"
	FanoutGroup = "fanout"
	LedgerGroup = "ledger"
)

// MaxPartitions of a group: a plan names the owner of each and must fit into one message.
const MaxPartitions = 2048

// CohortKind is what a key in a bucket of groups holds.
type CohortKind string

// The kinds; the keys are <group>.<kind>, and <group>.<kind>.<id> for the last two.
const (
	CohortGroupKind  CohortKind = "group"  // [CohortGroup]
	CohortLeaseKind  CohortKind = "lease"  // [CohortLease]
	CohortPlanKind   CohortKind = "plan"   // [CohortPlan]
	CohortOrdersKind CohortKind = "orders" // [CohortOrders]
	CohortMemberKind CohortKind = "member" // [CohortMember]
	CohortPartKind   CohortKind = "part"   // [CohortPart]
)

// KeyCohort is the key of a record of which a group has one.
func KeyCohort(group string, kind CohortKind) string { return Token(group) + "." + string(kind) }

// KeyCohortMember is the key of a member's record.
func KeyCohortMember(group, member string) string {
	return KeyCohort(group, CohortMemberKind) + "." + Token(member)
}

// KeyCohortMembers matches those of all members.
func KeyCohortMembers(group string) string { return KeyCohort(group, CohortMemberKind) + ".*" }

// KeyCohortPart is the key of a partition's record.
func KeyCohortPart(group string, partition int) string {
	return KeyCohort(group, CohortPartKind) + "." + strconv.Itoa(partition)
}

// KeyCohortParts matches those of all partitions.
func KeyCohortParts(group string) string { return KeyCohort(group, CohortPartKind) + ".*" }

// KeyCohortGroups matches the records by which groups are found.
func KeyCohortGroups() string { return "*." + string(CohortGroupKind) }

// ParseCohort is the inverse of the KeyCohort functions. The id is that of a member, or the
// number of a partition.
func ParseCohort(key string) (group string, kind CohortKind, id string, err error) {
	parts := strings.Split(key, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return "", "", "", fmt.Errorf("subjects: %q is not a key of a group", key)
	}
	if group, err = ParseToken(parts[0]); err != nil {
		return "", "", "", err
	}
	kind = CohortKind(parts[1])
	switch {
	case len(parts) == 2 && (kind == CohortGroupKind || kind == CohortLeaseKind || kind == CohortPlanKind || kind == CohortOrdersKind):
		return group, kind, "", nil
	case len(parts) == 3 && kind == CohortMemberKind:
		id, err = ParseToken(parts[2])
		return group, kind, id, err
	case len(parts) == 3 && kind == CohortPartKind:
		if n, err := strconv.Atoi(parts[2]); err == nil && n >= 0 && n < MaxPartitions && strconv.Itoa(n) == parts[2] {
			return group, kind, parts[2], nil
		}
	}
	return "", "", "", fmt.Errorf("subjects: %q is not a key of a group", key)
}

// headerReason says in the message that ends a member's record why it was ended.
const headerReason = "Rollcall-Reason"

// CohortEnd is the header of a message that ends a record of a group.
func CohortEnd(reason string) map[string][]string {
	h := KVPurge()
	h[headerReason] = []string{reason}
	return h
}

// CohortEndReason is why a record was ended; empty if nobody has said so, as when the store
// let it expire.
func CohortEndReason(header map[string][]string) string {
	if v := header[headerReason]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// CohortGroup is what all members of a group must agree on. It is written once.
type CohortGroup struct {
	Partitions int          `json:"partitions"`
	Timing     CohortTiming `json:"timing"`
}

// CohortLease says who coordinates the group. Its holder writes it again and again, which
// is also what lets time pass for the group.
type CohortLease struct {
	Holder string `json:"holder"`
	Conn   string `json:"conn"`
}

// CohortBye is a goodbye.
type CohortBye string

// The goodbyes.
const (
	ByeRestart CohortBye = "restart" // back in a moment: its partitions are held for it
	ByeFinal   CohortBye = "final"   // not back: they move at once
)

// CohortMember is what a member says of itself with every heartbeat.
type CohortMember struct {
	// Conn is of this connection and no other.
	Conn string `json:"conn"`
	// Weight is its share of the partitions, beside those of the others; 0 stands for 1.
	Weight int `json:"weight,omitempty"`
	// Load is how much work waits, in whatever unit the group uses.
	Load float64 `json:"load,omitempty"`
	// IdleMS is how long ago, in milliseconds, it last made progress.
	IdleMS int64     `json:"idle_ms,omitempty"`
	Bye    CohortBye `json:"bye,omitempty"`
	// Released are the partitions that it has given up, with the generation in which it
	// had them, until the plan shows that the coordinator knows.
	Released map[int]uint64 `json:"released,omitempty"`
	// Info is for people: where it runs.
	Info string `json:"info,omitempty"`
}

// CohortPlan says who owns what. Only the coordinator writes it, each time expecting the
// revision of the plan that it knows.
type CohortPlan struct {
	// Generation grows with every plan.
	Generation uint64 `json:"generation"`
	// By is the coordinator that wrote it.
	By string `json:"by"`
	// Members maps those that take part to their connections.
	Members map[string]string `json:"members"`
	// Partitions by number.
	Partitions []CohortShare `json:"partitions"`
}

// CohortShare is one partition in a plan.
type CohortShare struct {
	Owner string `json:"owner,omitempty"`
	// Generation in which the owner was given it.
	Generation uint64 `json:"generation,omitempty"`
	// Next is who gets it as soon as the owner has released it.
	Next string `json:"next,omitempty"`
	// Why the owner was given it, or Next is to be.
	Why string `json:"why,omitempty"`
}

// CohortPart is the record of a partition: who may commit, and what was committed. Only its
// owner writes it, and a new owner takes it by a higher generation.
type CohortPart struct {
	Owner      string `json:"owner"`
	Conn       string `json:"conn"`
	Generation uint64 `json:"generation"`
	Offset     uint64 `json:"offset"`
}

// CohortOrders are what operators have ordered.
type CohortOrders struct {
	// Drained members get no partitions.
	Drained []string `json:"drained,omitempty"`
	// Pinned partitions go to this member whenever it is there.
	Pinned map[int]string `json:"pinned,omitempty"`
}

// ErrCohort is returned, wrapped with the reason, for records that make no sense.
var ErrCohort = errors.New("subjects: not a record of a group")

// DecodeCohort reads a record of a group. It returns no record that breaks a rule of its
// fields.
func DecodeCohort[R any, P interface {
	*R
	check() error
}](data []byte) (P, error) {
	var r R
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCohort, err)
	}
	if err := P(&r).check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCohort, err)
	}
	return &r, nil
}

func (g *CohortGroup) check() error {
	if g.Partitions < 1 || g.Partitions > MaxPartitions {
		return fmt.Errorf("%d partitions, must be 1 to %d", g.Partitions, MaxPartitions)
	}
	return g.Timing.Validate()
}

func (l *CohortLease) check() error { return checkConn(l.Holder, l.Conn) }

func checkConn(id, conn string) error {
	if conn == "" {
		return errors.New("no connection id")
	}
	return rollcall.CheckID(id)
}

func (m *CohortMember) check() error {
	switch {
	case m.Conn == "":
		return errors.New("no connection id")
	case m.Weight < 0 || m.Weight > MaxWeight:
		return fmt.Errorf("weight %d, must be 0 to %d", m.Weight, MaxWeight)
	case m.IdleMS < 0 || m.IdleMS > int64(maxIdle/time.Millisecond):
		return fmt.Errorf("idle for %d ms", m.IdleMS)
	case m.Bye != "" && m.Bye != ByeRestart && m.Bye != ByeFinal:
		return fmt.Errorf("goodbye %q", m.Bye)
	}
	return nil
}

// MaxWeight of a member.
const MaxWeight = 1000

// maxIdle keeps sums of times far from overflow.
const maxIdle = 100 * 366 * 24 * time.Hour

func (p *CohortPlan) check() error {
	if len(p.Partitions) > MaxPartitions {
		return fmt.Errorf("%d partitions, at most %d", len(p.Partitions), MaxPartitions)
	}
	for id, conn := range p.Members {
		if err := checkConn(id, conn); err != nil {
			return err
		}
	}
	for n, s := range p.Partitions {
		if s.Owner != "" && p.Members[s.Owner] == "" {
			return fmt.Errorf("partition %d belongs to %q, which is no member", n, s.Owner)
		}
		if s.Generation > p.Generation {
			return fmt.Errorf("partition %d is of generation %d, the plan of %d", n, s.Generation, p.Generation)
		}
	}
	return nil
}

func (p *CohortPart) check() error { return checkConn(p.Owner, p.Conn) }

func (o *CohortOrders) check() error {
	for _, id := range o.Drained {
		if err := rollcall.CheckID(id); err != nil {
			return err
		}
	}
	for n, id := range o.Pinned {
		if n < 0 || n >= MaxPartitions {
			return fmt.Errorf("partition %d", n)
		}
		if err := rollcall.CheckID(id); err != nil {
			return err
		}
	}
	return nil
}
