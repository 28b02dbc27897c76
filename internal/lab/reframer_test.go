package lab

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// operations draws what a server may send. Times lie around the jump at 1000 s.
var operations = rapid.SliceOfN(rapid.OneOf(
	rapid.SampledFrom([]string{"PING\r\n", "PONG\r\n", "+OK\r\n", "-ERR 'bad'\r\n", `INFO {"version":"2"}` + "\r\n"}),
	rapid.Custom(func(t *rapid.T) string {
		body := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "body"))
		return fmt.Sprintf("MSG a.b 7 %d\r\n%s\r\n", len(body), body)
	}),
	rapid.Custom(func(t *rapid.T) string {
		body := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "body"))
		at := rapid.Int64Range(0, 2000).Draw(t, "at") * int64(time.Second)
		return fmt.Sprintf("MSG a.b 7 $JS.ACK.S.C.1.2.3.%d.0 %d\r\n%s\r\n", at, len(body), body)
	}),
	rapid.Custom(func(t *rapid.T) string {
		at := time.Unix(rapid.Int64Range(0, 2000).Draw(t, "at"), 0).UTC().Format(time.RFC3339Nano)
		body := fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response","ts":"%s"}`, at)
		return fmt.Sprintf("MSG _INBOX.x 7 %d\r\n%s\r\n", len(body), body)
	}),
	rapid.Custom(func(t *rapid.T) string {
		at := time.Unix(rapid.Int64Range(0, 2000).Draw(t, "at"), 0).UTC().Format(time.RFC3339Nano)
		header := "NATS/1.0\r\nNats-Time-Stamp: " + at + "\r\n\r\n"
		return fmt.Sprintf("HMSG a.b 7 %d %d\r\n%sbody\r\n", len(header), len(header)+4, header)
	}),
), 1, 20)

func skewed(since, shift time.Duration) clocks {
	c := new(clock)
	c.jumps.Store(&[]jump{{time.Unix(0, int64(since)), shift}})
	return clocks{c}
}

// feedInPieces cuts the input at random places.
func feedInPieces(t *rapid.T, c clocks, input []byte) []byte {
	r := reframer{clocks: c}
	var out []byte
	for len(input) > 0 {
		n := rapid.IntRange(1, min(len(input), 60)).Draw(t, "piece")
		out = r.feed(out, input[:n])
		input = input[n:]
	}
	return out
}

func TestPiecesMakeNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input := []byte(strings.Join(operations.Draw(t, "operations"), ""))
		c := skewed(1000*time.Second, time.Hour)
		whole := (&reframer{clocks: c}).feed(nil, input)
		if pieces := feedInPieces(t, c, input); !bytes.Equal(pieces, whole) {
			t.Fatalf("whole: %q\npieces: %q", whole, pieces)
		}
	})
}

func TestNoSkewIsIdentity(t *testing.T) {
	for name, c := range map[string]clocks{
		"never jumped": {new(clock)}, "jumped by zero": skewed(0, 0), "jumps later": skewed(time.Hour, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				input := []byte(strings.Join(operations.Draw(t, "operations"), ""))
				if out := feedInPieces(t, c, input); !bytes.Equal(out, input) {
					t.Fatalf("%q became %q", input, out)
				}
			})
		})
	}
}

// Skewed one way and back, everything is as before: framing and all.
func TestSkewCanBeUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input := []byte(strings.Join(operations.Draw(t, "operations"), ""))
		there := feedInPieces(t, skewed(0, 123456*time.Second), input)
		if back := feedInPieces(t, skewed(0, -123456*time.Second), there); !bytes.Equal(back, input) {
			t.Fatalf("%q became %q by way of %q", input, back, there)
		}
	})
}

func TestRewrite(t *testing.T) {
	const json = `{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"time":"%s","data":"InRzIg=="}}`
	sized := func(format, body string) string { return fmt.Sprintf(format, len(body), body) }
	for name, tc := range map[string]struct{ in, want string }{
		"9 tokens":  {"MSG s 1 $JS.ACK.S.C.1.2.3.1500000000000.4 0\r\n\r\n", "MSG s 1 $JS.ACK.S.C.1.2.3.1501000000000.4 0\r\n\r\n"},
		"11 tokens": {"MSG s 1 $JS.ACK.D.A.S.C.1.2.3.1500000000000.4 0\r\n\r\n", "MSG s 1 $JS.ACK.D.A.S.C.1.2.3.1501000000000.4 0\r\n\r\n"},
		"12 tokens": {"MSG s 1 $JS.ACK._.A.S.C.1.2.3.1500000000000.4.r 0\r\n\r\n", "MSG s 1 $JS.ACK._.A.S.C.1.2.3.1501000000000.4.r 0\r\n\r\n"},
		"10 tokens": {"MSG s 1 $JS.ACK.A.S.C.1.2.3.1500000000000.4 0\r\n\r\n", ""},
		"older":     {"MSG s 1 $JS.ACK.S.C.1.2.3.900000000000.4 0\r\n\r\n", ""},
		"header":    {"HMSG s 1 $JS.ACK.S.C.1.2.3.1500000000000.4 14 15\r\nNATS/1.0\r\n\r\n\r\nx\r\n", "HMSG s 1 $JS.ACK.S.C.1.2.3.1501000000000.4 14 15\r\nNATS/1.0\r\n\r\n\r\nx\r\n"},
		"longer JSON": {
			sized("MSG i 1 %d\r\n%s\r\n", fmt.Sprintf(json, "1970-01-01T00:25:00Z")),
			sized("MSG i 1 %d\r\n%s\r\n", fmt.Sprintf(json, "1970-01-01T00:25:01Z")),
		},
		"shorter JSON": {
			sized("MSG i 1 %d\r\n%s\r\n", fmt.Sprintf(json, "1970-01-01T00:25:00.5Z")),
			sized("MSG i 1 %d\r\n%s\r\n", fmt.Sprintf(json, "1970-01-01T00:25:01.5Z")),
		},
		"an application's JSON":  {sized("MSG i 1 %d\r\n%s\r\n", `{"ts":"1970-01-01T00:25:00Z"}`), ""},
		"an application's reply": {"MSG s 1 my.reply.C.1.2.3.x.1500000000000.4 0\r\n\r\n", ""},
		"not a number":           {"MSG s 1 $JS.ACK.S.C.1.2.3.soon.4 0\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want == "" {
				tc.want = tc.in
			}
			got := (&reframer{clocks: skewed(1000*time.Second, time.Second)}).feed(nil, []byte(tc.in))
			if string(got) != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A jump in the middle of an operation leaves that operation alone.
func TestJumpTakesEffectBetweenOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(clock)
		r := reframer{clocks: clocks{c}}
		now := time.Now().Add(time.Hour).UnixNano()
		op := fmt.Sprintf("MSG s 1 $JS.ACK.S.C.1.2.3.%d.4 5\r\nhello\r\n", now)
		skewedOp := fmt.Sprintf("MSG s 1 $JS.ACK.S.C.1.2.3.%d.4 5\r\nhello\r\n", now+int64(time.Second))
		out := r.feed(nil, []byte(op[:20]))
		c.jump(time.Second)
		out = r.feed(out, []byte(op[20:]+op))
		if want := op + skewedOp; string(out) != want {
			t.Errorf("got  %q\nwant %q", out, want)
		}
	})
}
