package viewer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects"
)

// The vectors in testdata/reducer drive every client's reducer, whatever it is
// written in: this test holds them against the Go one, clients/js against its own.
//
//	named.json   written by hand, a case for each rule of the contract
//	random.json  what the Go reducer says in a simulated fabric that loses, repeats
//	             and reorders messages; `go test ./fanout/viewer -run Vectors -args
//	             -update` writes it anew
//
// A file is a list of cases, a case a name and steps for a new reducer. A step says
// at which millisecond ("now", of any clock) what is done ("do"):
//
//	want, unwant  "targets"
//	message       "message", as it is on the wire
//	reply         "reply", as on the wire, to a request that named "asked"; "base"
//	              lists the shards for which it is the first answer of a resync, "once"
//	              marks the answer to a get
//	unsubscribed  "reply"
//	refreshed     "reply"
//	leave         "targets" that are about to be unsubscribed
//	done          the oldest leave that is not done
//	offline       "reason", empty to end it
//	lose, forget  "shards"; lose without shards means all
//	wait          nothing but time passes
//
// and what must be seen then; what is absent is not checked in the case of "states"
// and "members", and empty otherwise:
//
//	stale       the reply came from a former owner
//	changes     what is shown differently since the last step
//	states      what is shown of every wanted target
//	lost        the shards of which messages may be missing, looked at after changes
//	            and states
//	next_claim  when, without further events, more may be lost
//	members     the targets that are, or may be, in the "lost" shards
//
// A state is written as its status, its version, and its other fields by name,
// the reason among them: "online 7 activity=chess state=idle".
type vectorStep struct {
	Now     int64           `json:"now"`
	Do      string          `json:"do"`
	Targets []string        `json:"targets,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
	Asked   []string        `json:"asked,omitempty"`
	Base    []int           `json:"base,omitempty"`
	Once    bool            `json:"once,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Shards  []int           `json:"shards,omitempty"`
	vectorSeen
}

type vectorSeen struct {
	Stale     bool              `json:"stale,omitempty"`
	Changes   map[string]string `json:"changes,omitempty"`
	States    map[string]string `json:"states,omitzero"`
	Lost      []int             `json:"lost,omitempty"`
	NextClaim int64             `json:"next_claim,omitempty"`
	Members   []string          `json:"members,omitzero"`
}

type vectorCase struct {
	Name  string       `json:"name"`
	Steps []vectorStep `json:"steps"`
}

var updateVectors = flag.Bool("update", false, "write testdata/reducer/random.json anew")

func vectorFile(name string) string { return filepath.Join("testdata", "reducer", name) }

func TestVectorsByHand(t *testing.T) {
	data, err := os.ReadFile(vectorFile("named.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []vectorCase
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields() // a misspelt expectation would check nothing
	if err := decoder.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := newPlayer(t)
			for i, s := range c.Steps {
				got := p.play(s)
				if s.States == nil {
					got.States = nil
				}
				if s.Members == nil {
					got.Members = nil
				}
				checkSeen(t, fmt.Sprintf("step %d, %s", i, s.Do), got, s.vectorSeen)
			}
		})
	}
}

// A step of random.json has its states and members now and then, to keep the file small.
const statesEvery = 15

func TestVectorsByChance(t *testing.T) {
	var cases []vectorCase
	for run := range 43 {
		cases = append(cases, randomCase(t, uint64(run)))
	}
	fresh := writeVectors(t, cases)
	if *updateVectors {
		if err := os.WriteFile(vectorFile("random.json"), fresh, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(vectorFile("random.json"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(fresh, committed) {
		return
	}
	was, is := bytes.Split(committed, []byte("\n")), bytes.Split(fresh, []byte("\n"))
	for i := range min(len(was), len(is)) {
		if !bytes.Equal(was[i], is[i]) {
			t.Fatalf("line %d differs; if that is meant, run with -args -update and tell the other clients\nwas %s\nis  %s", i+1, was[i], is[i])
		}
	}
	t.Fatalf("%d lines, now %d", len(was), len(is))
}

// writeVectors puts every step on a line of its own.
func writeVectors(t *testing.T, cases []vectorCase) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, c := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		fmt.Fprintf(&out, "{\"name\":%q,\"steps\":[\n", c.Name)
		for i, s := range c.Steps {
			line, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(line)
			out.WriteString(map[bool]string{true: "\n", false: ",\n"}[i == len(c.Steps)-1])
		}
		out.WriteString("]}")
	}
	out.WriteString("\n]\n")
	return out.Bytes()
}

// A player takes a reducer through the steps of a case.
type player struct {
	t       *testing.T
	r       *viewer.Reducer
	wanted  map[string]bool
	leaving []func()
}

func newPlayer(t *testing.T) *player {
	return &player{t: t, r: viewer.NewReducer(), wanted: make(map[string]bool)}
}

// play does a step and says what is seen.
func (p *player) play(s vectorStep) (seen vectorSeen) {
	p.t.Helper()
	now := time.UnixMilli(s.Now)
	seen.Stale = !p.do(s, now)
	for _, c := range p.r.Changes(now) {
		if seen.Changes == nil {
			seen.Changes = make(map[string]string)
		}
		seen.Changes[c.Target] = p.written(c.State)
		if c.At != now {
			p.t.Errorf("%s changed at %s, not at %s", c.Target, c.At, now)
		}
	}
	seen.States = make(map[string]string)
	for target := range p.wanted {
		if state, ok := p.r.State(target); ok {
			seen.States[target] = p.written(state)
		}
	}
	lost := p.r.Lost(now)
	seen.Lost = slices.Sorted(maps.Keys(lost))
	seen.Members = append([]string{}, p.r.Members(lost)...)
	if at := p.r.NextClaim(); !at.IsZero() {
		seen.NextClaim = at.UnixMilli()
	}
	return seen
}

func (p *player) do(s vectorStep, now time.Time) (fresh bool) {
	p.t.Helper()
	switch s.Do {
	case "want":
		p.r.Want(s.Targets...)
		for _, target := range s.Targets {
			p.wanted[target] = true
		}
	case "unwant":
		p.r.Unwant(s.Targets...)
		for _, target := range s.Targets {
			delete(p.wanted, target)
		}
	case "message":
		p.r.Message(decoded(p.t, s.Message, subjects.DecodeMessage), now)
	case "reply":
		return p.r.Reply(decoded(p.t, s.Reply, subjects.DecodeReply), viewer.Answer{Asked: s.Asked, Base: set(s.Base), Once: s.Once}, now)
	case "unsubscribed":
		p.r.Unsubscribed(decoded(p.t, s.Reply, subjects.DecodeReply), now)
	case "refreshed":
		p.r.Refreshed(decoded(p.t, s.Reply, subjects.DecodeReply), now)
	case "leave":
		p.leaving = append(p.leaving, p.r.Leave(s.Targets...))
	case "done":
		p.leaving[0]()
		p.leaving = p.leaving[1:]
	case "offline":
		p.r.SetOffline(s.Reason)
	case "lose":
		if s.Shards == nil {
			p.r.LoseAll()
		} else {
			p.r.Lose(set(s.Shards))
		}
	case "forget":
		p.r.Forget(set(s.Shards))
	case "wait":
	default:
		p.t.Fatalf("nobody knows how to %q", s.Do)
	}
	return true
}

func decoded[T any](t *testing.T, data json.RawMessage, decode func([]byte) (T, error)) T {
	t.Helper()
	v, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func set(shards []int) map[int]bool {
	all := make(map[int]bool)
	for _, n := range shards {
		all[n] = true
	}
	return all
}

// written is a state as the vectors write it. It takes the fields from the JSON, so
// that one which is new is compared as well.
func (p *player) written(s viewer.State) string {
	p.t.Helper()
	data, err := json.Marshal(s.View)
	if err != nil {
		p.t.Fatal(err)
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(data, &fields); err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"target", "status", "version"} {
		delete(fields, name)
	}
	if s.Reason != "" {
		fields["reason"] = s.Reason
	}
	words := []string{string(s.View.Status), fmt.Sprint(s.View.Version)}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		words = append(words, fmt.Sprintf("%s=%v", name, fields[name]))
	}
	return strings.Join(words, " ")
}

func checkSeen(t *testing.T, step string, got, want vectorSeen) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s\nseen %s\nwant %s", step, g, w)
	}
}
