package fanout_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

func users(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("user-%d", i)
	}
	return all
}

func TestBadRequests(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		quoted := func(s string) []byte {
			b, _ := json.Marshal(s)
			return []byte(`{"targets":[` + string(b) + `]}`)
		}
		for _, row := range []struct {
			name string
			op   subjects.Op
			body []byte
			want subjects.Code // "" is an answer
		}{
			{"empty id", subjects.OpSubscribe, body(""), subjects.CodeInvalidID},
			{"1 byte", subjects.OpSubscribe, body("a"), ""},
			{"128 bytes", subjects.OpSubscribe, body(strings.Repeat("a", 128)), ""},
			{"129 bytes", subjects.OpSubscribe, body(strings.Repeat("a", 129)), subjects.CodeInvalidID},
			{"2 KB", subjects.OpGet, body(strings.Repeat("a", 2048)), subjects.CodeInvalidID},
			{"star", subjects.OpSubscribe, body("*"), ""},
			{"greater", subjects.OpSubscribe, body(">"), ""},
			{"dots", subjects.OpSubscribe, body("a.b..c."), ""},
			{"spaces", subjects.OpSubscribe, body(" a b\t\r\n"), ""},
			{"control", subjects.OpSubscribe, body("\x00"), ""},
			{"not UTF-8", subjects.OpSubscribe, []byte("{\"targets\":[\"\xff\"]}"), subjects.CodeInvalidRequest},
			{"not JSON", subjects.OpGet, []byte("{"), subjects.CodeInvalidRequest},
			{"wrong shape", subjects.OpGet, []byte(`{"targets":{"a":1}}`), subjects.CodeInvalidRequest},
			{"deep", subjects.OpGet, bytes.Repeat([]byte("["), 100_000), subjects.CodeInvalidRequest},
			{"null id", subjects.OpGet, []byte(`{"targets":[null]}`), subjects.CodeInvalidID},
			{"no body", subjects.OpSubscribe, nil, subjects.CodeNoTargets},
			{"no targets", subjects.OpGet, body(), subjects.CodeNoTargets},
			{"10,000 targets", subjects.OpGet, body(users(10_000)...), ""},
			{"10,001 targets", subjects.OpGet, body(users(10_001)...), subjects.CodeTooManyTargets},
			{"10,001 to leave", subjects.OpUnsubscribe, body(users(10_001)...), subjects.CodeTooManyTargets},
			{"an escaped quote", subjects.OpSubscribe, quoted(`"\`), ""},
			{"leave all", subjects.OpUnsubscribe, nil, ""},
			{"leave all again", subjects.OpUnsubscribe, body(), ""},
			{"refresh with garbage", subjects.OpRefresh, []byte("\xff{"), ""},
		} {
			_, refusal := v.ask(row.op, row.body)
			if refusal == nil && row.want != "" || refusal != nil && refusal.Code != row.want {
				t.Errorf("%s: got %v, want %q", row.name, refusal, row.want)
			}
		}
	})
}

func TestBadViewers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		head := strings.TrimSuffix(s.Fabric.Request(subjects.OpRefresh, "x"), "x")
		for token, ok := range map[string]bool{
			"alice": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "=": false, "=!": false, "=YWI": false, "a%20b": false,
			subjects.Token("*"): true, subjects.Token(">"): true, subjects.Token("a b.c"): true, subjects.Token("\xff"): false,
			subjects.Token(strings.Repeat("ä", 64)): true, subjects.Token(strings.Repeat("ä", 65)): false, subjects.Token(strings.Repeat("ab", 1024)): false,
		} {
			m, err := v.nc.Request(head+token, nil, time.Second)
			if err != nil {
				t.Errorf("%.20q: %v", token, err)
				continue
			}
			if code := m.Header.Get(micro.ErrorCodeHeader); ok != (code == "") || !ok && code != string(subjects.CodeInvalidRequest) {
				t.Errorf("%.20q: code %q", token, code)
			}
		}
	})
}

func TestInterestLimitIsPerViewer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		all := users(10_000)
		if _, refusal := v.ask(subjects.OpSubscribe, body(all...)); refusal != nil {
			t.Fatal(refusal)
		}
		for range 2 { // subscribing again to the same is allowed
			if _, refusal := v.ask(subjects.OpSubscribe, body(all...)); refusal != nil {
				t.Fatal(refusal)
			}
			if _, refusal := v.ask(subjects.OpSubscribe, body("one more")); refusal == nil || refusal.Code != subjects.CodeTooManyTargets {
				t.Fatalf("10,001st target: %v", refusal)
			}
		}
		v.do(subjects.OpUnsubscribe, all[0])
		v.do(subjects.OpSubscribe, "one more")
		total := 0
		for _, p := range v.do(subjects.OpRefresh).Shards {
			total += p.Targets
		}
		if total != 10_000 {
			t.Errorf("subscribed to %d", total)
		}
		newRaw(s, "dave").do(subjects.OpSubscribe, all[:100]...) // others are not concerned
	})
}

func TestTooLargeChangesNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		// Every byte of the ids is escaped, in the request, too.
		long := make([]string, 9900)
		for i := range long {
			long[i] = fmt.Sprintf("%s%04d", strings.Repeat("\x01", 124), i)
		}
		s.PutAll(long, rollcall.Active)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		for _, op := range []subjects.Op{subjects.OpSubscribe, subjects.OpGet} {
			if _, refusal := v.ask(op, body(long...)); refusal == nil || refusal.Code != subjects.CodeTooLarge {
				t.Errorf("%s: %v", op, refusal)
			}
		}
		if r := v.do(subjects.OpRefresh); len(r.Shards) != 0 {
			t.Errorf("something was registered: %+v", r)
		}
		if got := views(v.do(subjects.OpSubscribe, long[:1000]...)); len(got) != 1000 {
			t.Errorf("%d views", len(got))
		}
	})
}

func TestSecondSubscribeAddsAndUnsubscribeIsIdempotent(t *testing.T) { // scenario 28
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.PutAll([]string{"a", "b", "c"}, rollcall.Active)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		v.do(subjects.OpSubscribe, "a")
		v.do(subjects.OpSubscribe, "b", "c")
		s.PutAll([]string{"a", "b", "c"}, rollcall.Offline)
		time.Sleep(time.Second)
		told := map[string]bool{}
		for _, m := range v.heard() {
			for _, c := range m.Changes {
				told[c.Target] = c.Status == rollcall.StatusOffline
			}
		}
		if !told["a"] || !told["b"] || !told["c"] {
			t.Errorf("told %v", told)
		}
		for range 2 {
			r := v.do(subjects.OpUnsubscribe, "a")
			if r.Shards[0].Targets != 2 {
				t.Errorf("left with %+v", r)
			}
		}
		s.Set("a", rollcall.Active)
		time.Sleep(time.Second)
		for _, m := range v.heard() {
			if len(m.Changes) > 0 {
				t.Errorf("told %+v", m.Changes)
			}
		}
	})
}

func TestInterestEndsWithoutRefresh(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		f := s.Start(fanout.Config{})
		kept, gone := newRaw(s, "kept"), newRaw(s, "gone")
		kept.do(subjects.OpSubscribe, "bob")
		gone.do(subjects.OpSubscribe, "bob")
		for range 20 { // ten minutes
			time.Sleep(30 * time.Second)
			kept.do(subjects.OpRefresh)
		}
		s.Set("bob", rollcall.Active)
		time.Sleep(time.Second)
		if got := kept.heard(); len(got) == 0 || len(got[0].Changes) != 1 {
			t.Errorf("kept heard %+v", got)
		}
		if got := gone.heard(); len(got) != 0 {
			t.Errorf("gone heard %+v", got)
		}
		// The store agrees: the next owner knows one of them.
		f.Crash()
		s.Start(fanout.Config{})
		time.Sleep(time.Second)
		if got := kept.heard(); len(got) == 0 {
			t.Error("the takeover forgot a kept interest")
		}
		if got := gone.heard(); len(got) != 0 {
			t.Errorf("the takeover brought an interest back: %+v", got)
		}
	})
}
