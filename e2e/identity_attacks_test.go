package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A siege is a fabric where vera watches ann, and mallory has a viewer's token of her own.
type siege struct {
	*guarded
	vera    *viewer.Client
	ann     *edge.Conn
	mallory *nats.Conn
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	g := newGuarded(t)
	g.keeper("k")
	g.fanout("f")
	_, node := g.edge("g1")
	ann, err := node.Connect("ann", "phone", edge.State{Foreground: true, Active: true})
	if err != nil {
		t.Fatal(err)
	}
	beating, silence := context.WithCancel(g.ctx)
	t.Cleanup(silence)
	go beat(beating, ann)
	_, vera := g.viewer("vera", "ann")
	s := &siege{guarded: g, vera: vera, ann: ann}
	s.mallory = s.intrude("mallory")
	time.Sleep(time.Minute)
	s.wantVeraSees("before the attack", rollcall.StatusOnline)
	return s
}

// intrude connects with a viewer's token; what it is refused is no failure.
func (s *siege) intrude(id string) *nats.Conn {
	s.t.Helper()
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return lab.Connect(s.t, s.server.NewLink(), append(s.server.As(identity.Viewer, id), quiet)...)
}

func (s *siege) wantVeraSees(when string, want rollcall.Status) {
	s.t.Helper()
	if got, _ := s.vera.State("ann"); got.View.Status != want {
		s.t.Errorf("%s, vera sees ann %q (%s), want %q", when, got.View.Status, got.Reason, want)
	}
}

func refusal(t *testing.T, nc *nats.Conn, what string) bool {
	t.Helper()
	if err := nc.Flush(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	err := nc.LastError()
	return err != nil && strings.Contains(err.Error(), what)
}

// Nothing of what others say or hear reaches mallory, while it is said.
func TestAttackListening(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		n := s.names
		heard := make(chan *nats.Msg, 1000)
		for _, subject := range []string{
			n.ViewEvents("vera", n.Shard("ann")), n.ViewEventsAll("vera"), "presence.view.vera.>", "presence.view.*.*", "presence.view.>",
			n.Request(subjects.OpRefresh, "vera"), n.Requests(subjects.OpRefresh), "presence.req.>", n.Policy(subjects.PolicyGet, "ann"),
			"presence.policy.>", identity.Inbox(identity.Viewer, "vera") + ".>", "_INBOX.viewer.*.>", "_INBOX.>", "_INBOX.*.*.*.*",
			identity.Inbox(identity.Fanout, "f") + ".>", identity.Inbox(identity.Edge, "mallory") + ".>", n.Log(0, "g1"), "presence.log.>",
			n.EdgeControl("g1"), n.Pulse(0), n.Sight(), "$KV.>", "$JS.>", "$SYS.>", "$SRV.>", ">", "*.*.*.*", "presence.>",
		} {
			for _, subscribe := range []func() (*nats.Subscription, error){
				func() (*nats.Subscription, error) { return s.mallory.ChanSubscribe(subject, heard) },
				func() (*nats.Subscription, error) { return s.mallory.ChanQueueSubscribe(subject, "q", heard) },
			} {
				if _, err := subscribe(); err != nil {
					t.Fatal(err)
				}
				if !refusal(t, s.mallory, fmt.Sprintf("Subscription to %q", subject)) {
					t.Errorf("mallory may listen to %s", subject)
				}
			}
		}
		s.ann.Close()
		time.Sleep(2 * time.Minute) // events, requests, answers, frames
		s.wantVeraSees("meanwhile", rollcall.StatusOffline)
		if len(heard) > 0 {
			t.Errorf("mallory heard %d messages, the first on %s", len(heard), (<-heard).Subject)
		}
	})
}

// Nothing that mallory says gets anywhere.
func TestAttackSpeaking(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		n := s.names
		tap := lab.Connect(t, s.server.NewLink(), s.server.As(identity.Operator, "tap")...)
		arrived := make(chan *nats.Msg, 1000)
		if _, err := tap.ChanSubscribe(">", arrived); err != nil {
			t.Fatal(err)
		}
		if err := tap.Flush(); err != nil {
			t.Fatal(err)
		}
		forged := []byte("forged by mallory")
		said := []string{
			n.Log(0, "g1"), n.Log(0, "mallory"), n.Tick(0), n.Beats(0, "g1"), n.EdgeControl("g1"), n.Pulse(0),
			n.ViewEvents("vera", 0), n.ViewEvents("mallory", 0), n.Sight(), n.SightChanged(),
			n.Request(subjects.OpUnsubscribe, "vera"), n.Request(subjects.OpGet, "vera"), "presence.req.unsubscribe.*", "presence.req.*.vera",
			n.Policy(subjects.PolicySet, "ann"), n.Policy(subjects.PolicyGet, "ann"),
			n.Policy(subjects.PolicyJoin, "mallory"), n.Policy(subjects.PolicyForget, "mallory"),
			n.Device("beat", "ann", "phone"), n.Device("beat", "mallory", "phone"),
			subjects.KVSubject(n.ViewsBucket(0), subjects.KeyView("ann")), subjects.KVSubject(n.ViewsBucket(0), subjects.KeyPolicy("ann")),
			subjects.KVSubject(n.ViewsBucket(0), subjects.KeyGroups("mallory")), subjects.KVSubject(n.LeasesBucket(0), subjects.KeyOwner),
			subjects.KVSubject(n.InterestBucket(0), subjects.KeyInterest("mallory", 0)), subjects.KVSubject(n.CohortBucket("keeper"), "shard.0"),
			"$JS.API.STREAM.PURGE." + n.LogStream(0), "$JS.API.STREAM.DELETE." + n.LogStream(0), "$JS.API.STREAM.INFO." + n.LogStream(0),
			"$JS.API.STREAM.MSG.GET." + n.LogStream(0), "$JS.API.CONSUMER.CREATE." + n.LogStream(0) + ".c",
			"$SYS.REQ.CLAIMS.UPDATE", "$SRV.PING", identity.Inbox(identity.Viewer, "vera") + ".x", "orders",
		}
		for _, subject := range said {
			if err := s.mallory.Publish(subject, forged); err != nil {
				t.Fatal(err)
			}
			if !refusal(t, s.mallory, fmt.Sprintf("Publish to %q", subject)) {
				t.Errorf("mallory may publish to %s", subject)
			}
		}
		for len(arrived) > 0 {
			if m := <-arrived; string(m.Data) == string(forged) {
				t.Errorf("arrived on %s", m.Subject)
			}
		}
		s.wantVeraSees("after it all", rollcall.StatusOnline)
	})
}

// Who asks chooses where the answer goes. The fanout may publish to inboxes of those who
// ask, so mallory cannot have it write for her elsewhere.
func TestAttackByReplySubject(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		n := s.names
		tap := lab.Connect(t, s.server.NewLink(), s.server.As(identity.Operator, "tap")...)
		arrived := make(chan *nats.Msg, 1000)
		if _, err := tap.ChanSubscribe(">", arrived); err != nil {
			t.Fatal(err)
		}
		if err := tap.Flush(); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(subjects.Request{Targets: []string{"ann"}})
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		known := len(s.violations)
		s.mu.Unlock()
		for _, reply := range []string{
			subjects.KVSubject(n.ViewsBucket(0), subjects.KeyView("ann")), subjects.KVSubject(n.ViewsBucket(0), "other.key"),
			subjects.KVSubject(n.LeasesBucket(0), subjects.KeyUser("ann")), n.Log(0, "g1"), n.Beats(0, "g1"), n.EdgeControl("g1"),
			n.Pulse(0), n.SightChanged(), n.Policy(subjects.PolicyForget, "ann"), n.Request(subjects.OpUnsubscribe, "vera"),
			"$JS.API.STREAM.PURGE." + n.LogStream(0), "orders",
			// These the fanout may write itself.
			subjects.KVSubject(n.ViewsBucket(0), subjects.KeyPolicy("ann")), subjects.KVSubject(n.ViewsBucket(0), subjects.KeyGroups("ann")),
			subjects.KVSubject(n.InterestBucket(0), subjects.KeyInterest("ann", 0)), n.Sight(),
		} {
			for _, request := range []string{n.Request(subjects.OpGet, "mallory"), n.Policy(subjects.PolicyGet, "mallory")} {
				if err := s.mallory.PublishRequest(request, reply, body); err != nil {
					t.Fatal(err)
				}
				if err := s.mallory.Flush(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
				for len(arrived) > 0 {
					// Answers are JSON or empty; frames, pulses and controls are neither.
					if m := <-arrived; m.Subject == reply && (len(m.Data) == 0 || m.Data[0] == '{') {
						t.Errorf("an answer of the fanout arrived on %s: %q", reply, m.Data)
					}
				}
			}
		}
		s.mu.Lock()
		s.violations = s.violations[:known] // the fanout may have been refused, as it should be
		s.mu.Unlock()
		// On the stream of another viewer the fanout may publish, but an answer is no message.
		for shard := range n.Shards() {
			if err := s.mallory.PublishRequest(n.Request(subjects.OpGet, "mallory"), n.ViewEvents("vera", shard), body); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		s.wantVeraSees("after answers on her stream", rollcall.StatusOnline)
		s.ann.Close()
		time.Sleep(time.Minute)
		s.wantVeraSees("after ann has left", rollcall.StatusOffline)
	})
}

// hostile ids would widen a template if they reached it as they are.
var hostile = []string{
	"*", ">", "a.b", "mallory.>", "*.*", ".", "..", " ", "a b", "\t", "\x00", "{{name()}}", "{{tag(x)}}", "$JS", "=t", "=Kg", "дора", "👻", "vera\n",
	"vera.0", "VERA", strings.Repeat("v", rollcall.MaxID), strings.Repeat("\u00e9", rollcall.MaxID/2), strings.Repeat(">", rollcall.MaxID),
}

// An id is only ever itself: whatever it contains, it reads its own events, and makes
// its own requests, and no others.
func TestAttackByID(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		n := s.names
		for _, id := range hostile {
			nc := s.intrude(id)
			if _, err := nc.SubscribeSync(n.ViewEventsAll(id)); err != nil {
				t.Fatal(err)
			}
			if refusal(t, nc, "Subscription to") {
				t.Errorf("%q may not read its own events: %v", id, nc.LastError())
			}
			for _, subject := range []string{n.ViewEventsAll("vera"), "presence.view.*.0", "presence.view.>", "presence.view.*.*", "_INBOX.viewer.>", "_INBOX.>", ">"} {
				if _, err := nc.SubscribeSync(subject); err != nil {
					t.Fatal(err)
				}
				if !refusal(t, nc, fmt.Sprintf("Subscription to %q", subject)) {
					t.Errorf("%q may listen to %s", id, subject)
				}
			}
			if err := nc.Publish(n.Request(subjects.OpUnsubscribe, "vera"), nil); err != nil {
				t.Fatal(err)
			}
			if !refusal(t, nc, "Publish to") {
				t.Errorf("%q may speak for vera", id)
			}
			client, err := viewer.New(nc, viewer.Config{Viewer: id})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			running := make(chan error, 1)
			go func() { running <- client.Run(ctx) }()
			if states, err := client.Get(ctx, "ann"); err != nil || states["ann"].View.Status != rollcall.StatusOnline {
				t.Errorf("%q gets %v, %v", id, states, err)
			}
			cancel()
			<-running
			nc.Close()
		}
	})
}

func TestIDsThatCannotBeNamed(t *testing.T) {
	authority, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", strings.Repeat("v", rollcall.MaxID+1), "\xff", strings.Repeat("\u00e9", rollcall.MaxID/2) + "x"} {
		if c, err := authority.Issuer().Viewer(id, time.Hour); !errors.Is(err, identity.ErrName) {
			t.Errorf("%q: minted %q, %v", id, c.Name, err)
		}
		if c, err := authority.Issuer().Device("ann", id, time.Hour); !errors.Is(err, identity.ErrName) {
			t.Errorf("%q: minted %q, %v", id, c.Name, err)
		}
	}
}

// login tries to connect with a token and a key.
func (s *siege) login(token string, key nkeys.KeyPair) error {
	seed, err := key.Seed()
	if err != nil {
		s.t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(s.server.NewLink()), nats.UserJWTAndSeed(token, string(seed)))
	if err == nil {
		nc.Close()
	}
	return err
}

// Tokens that nobody minted are refused, and so are those that say more than a name.
func TestAttackWithTokens(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		key, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		own, err := nkeys.CreateAccount()
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := own.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		signer, err := nkeys.FromSeed([]byte(s.server.Authority().SigningKey(identity.Viewer).Seed))
		if err != nil {
			t.Fatal(err)
		}
		account := s.server.Authority().Account()
		minted, err := s.server.Authority().Issuer().Viewer("mallory", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			what   string
			signer nkeys.KeyPair
			change func(*jwt.UserClaims)
			want   bool
		}{
			{"as minted", signer, func(*jwt.UserClaims) {}, true},
			{"signed with a key of her own", own, func(*jwt.UserClaims) {}, false},
			{"of an account of her own", own, func(c *jwt.UserClaims) { c.IssuerAccount = stranger }, false},
			{"with permissions", signer, func(c *jwt.UserClaims) { c.Pub.Allow.Add(">") }, false},
			{"with a larger limit", signer, func(c *jwt.UserClaims) { c.Subs = -1 }, false},
			{"as a bearer's", signer, func(c *jwt.UserClaims) { c.BearerToken = true }, false},
			{"expired", signer, func(c *jwt.UserClaims) { c.Expires = time.Now().Unix() - 1 }, false},
		} {
			claims := jwt.NewUserClaims(public)
			claims.SetScoped(true)
			claims.Name, claims.IssuerAccount = "mallory", account
			tc.change(claims)
			token, err := claims.Encode(tc.signer)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.login(token, key); (err == nil) != tc.want {
				t.Errorf("%s: %v", tc.what, err)
			}
		}
		if err := s.login(minted.JWT, key); err == nil {
			t.Error("a stolen token without its key let her in")
		}
		nc, err := nats.Connect("", nats.InProcessServer(s.server.NewLink()))
		if err == nil {
			nc.Close()
			t.Error("nobody needs a token")
		}
	})
}

// dial connects once, and tells gone of the server's errors.
func (s *siege) dial(c identity.Credential, gone chan<- error) (*nats.Conn, error) {
	return nats.Connect("", append(c.Options(), nats.InProcessServer(s.server.NewLink()), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { gone <- err }))...)
}

func TestExpiredTokenIsCutOff(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		credential, err := s.server.Authority().Issuer().Viewer("short", 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 10)
		begin := time.Now()
		if _, err := s.dial(credential, gone); err != nil {
			t.Fatal(err)
		}
		if err := <-gone; !errors.Is(err, nats.ErrAuthExpired) {
			t.Errorf("cut off with %v", err)
		}
		if took := time.Since(begin); took < 89*time.Second || took > 91*time.Second {
			t.Errorf("cut off after %s", took)
		}
		time.Sleep(time.Second) // the end of the last second
		if nc, err := s.dial(credential, gone); err == nil {
			nc.Close()
			t.Error("it lets in again")
		}
	})
}

// With a credential that is minted again at every connect, a client outlives its tokens.
func TestRenewingOutlivesItsTokens(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		issuer := s.server.Authority().Issuer()
		options, err := identity.Renewing(func() (identity.Credential, error) { return issuer.Viewer("long", time.Minute) })
		if err != nil {
			t.Fatal(err)
		}
		nc := lab.Connect(t, s.server.NewLink(), append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
		time.Sleep(10*time.Minute + 30*time.Second)
		if !nc.IsConnected() || nc.Stats().Reconnects < 9 {
			t.Errorf("connected: %v, after %d reconnects: %v", nc.IsConnected(), nc.Stats().Reconnects, nc.LastError())
		}
		if m, err := nc.Request(s.names.Request(subjects.OpGet, "long"), []byte(`{"targets":["ann"]}`), time.Second); err != nil {
			t.Errorf("asking: %v, %v", m, err)
		}
	})
}

// A revoked user is cut off at once, others are not, and it may come back with a token
// that was minted later.
func TestRevokedTokenIsCutOff(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newSiege(t)
		authority := s.server.Authority()
		gone := make(chan error, 10)
		credential, err := authority.Issuer().Viewer("short", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.dial(credential, gone); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.revoke("short")
		if err := <-gone; !errors.Is(err, nats.ErrAuthRevoked) {
			t.Errorf("cut off with %v", err)
		}
		if nc, err := s.dial(credential, gone); err == nil {
			nc.Close()
			t.Error("it lets in again")
		}
		s.server.Stop()
		s.server.Start()
		if nc, err := s.dial(credential, gone); err == nil {
			nc.Close()
			t.Error("after a restart it lets in again")
		}
		time.Sleep(2 * time.Second)
		if credential, err = authority.Issuer().Viewer("short", time.Hour); err != nil {
			t.Fatal(err)
		}
		nc, err := s.dial(credential, gone)
		if err != nil {
			t.Fatalf("with a newer token: %v", err)
		}
		nc.Close()
		time.Sleep(time.Minute)
		s.wantVeraSees("all the time", rollcall.StatusOnline)
	})
}

func (s *siege) revoke(user string) {
	s.t.Helper()
	system, err := s.server.Authority().SystemUser(time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	nc := lab.Connect(s.t, s.server.NewLink(), system.Options()...)
	defer nc.Close()
	claims, err := natsd.LookupClaims(s.ctx, nc, s.server.Authority().Account())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.server.Authority().Revoke(claims, time.Now(), identity.Viewer, user); err != nil {
		s.t.Fatal(err)
	}
	token, err := s.server.Authority().Sign(claims)
	if err == nil {
		err = natsd.PushClaims(s.ctx, nc, token)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
