package session_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/session"
)

// The connection is moved, which shows as a reconnect, when the store has been silent for long, and
// then less and less often; an answer ends that.
func TestRoamer(t *testing.T) {
	silent, refused := errors.New("no answer"), &jetstream.APIError{Code: 400}
	noLeader := &jetstream.APIError{Code: 503}
	const s = time.Second
	for _, tc := range []struct {
		name   string
		single bool
		notes  map[time.Duration]error
		want   []time.Duration
	}{
		{"silent", false, map[time.Duration]error{s: silent, 7 * s: silent, 10 * s: silent, 11 * s: silent}, []time.Duration{11 * s}},
		{"no leader", false, map[time.Duration]error{s: noLeader, 13 * s: noLeader}, []time.Duration{13 * s}},
		{"an answer between", false, map[time.Duration]error{s: silent, 7 * s: nil, 13 * s: silent, 25 * s: silent}, []time.Duration{25 * s}},
		{"a refusal between", false, map[time.Duration]error{s: silent, 7 * s: refused, 13 * s: silent}, nil},
		{"given up between", false, map[time.Duration]error{s: silent, 7 * s: context.Canceled, 13 * s: silent}, []time.Duration{13 * s}},
		{"less and less often", false, map[time.Duration]error{s: silent, 13 * s: silent, 14 * s: silent, 26 * s: silent, 38 * s: silent}, []time.Duration{13 * s, 38 * s}},
		{"one server", true, map[time.Duration]error{s: silent, 13 * s: silent}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				begin := time.Now()
				nc := lab.Connect(t, lab.NewServer(t).NewLink(), func(o *nats.Options) error {
					if !tc.single {
						o.Servers = []string{"nats://one:4222", "nats://two:4222"}
					}
					return nil
				})
				r := &session.Roamer{Conn: nc, Log: slog.New(slog.DiscardHandler)}
				var got []time.Duration
				for at := time.Duration(0); at < time.Minute; at += s {
					before := nc.Stats().Reconnects
					if err, noted := tc.notes[at]; noted {
						r.Note(err)
					}
					time.Sleep(s)
					synctest.Wait()
					if nc.Stats().Reconnects > before {
						got = append(got, time.Since(begin)-s)
					}
				}
				if len(got) != len(tc.want) || len(got) > 0 && got[0] != tc.want[0] || len(got) > 1 && got[1] != tc.want[1] {
					t.Errorf("moved at %v, want %v", got, tc.want)
				}
			})
		})
	}
}
