package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Values of the types, as the fabric can make them.

var (
	anID      = rapid.OneOf(rapid.StringMatching(`[a-z0-9_-]{1,8}`), rapid.StringN(1, 42, rollcall.MaxID), rapid.SampledFrom([]string{"*", ">", "a.b", " ", "\x00", "дора", "😀", "<&>", "\ufffd"}))
	someIDs   = rapid.SliceOfN(anID, 1, 4)
	aNumber   = rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Uint64Range(0, 1<<53-1))
	aMinute   = rapid.Map(rapid.Int64Range(0, 253402300799), func(s int64) subjects.Minute { return subjects.Minute(s / 60) })
	aGran     = rapid.SampledFrom([]rollcall.Granularity{rollcall.Absent, rollcall.Hidden, rollcall.Coarse, rollcall.Exact})
	someGran  = rapid.Map(rapid.SliceOfN(aGran, 0, 1), func(g []rollcall.Granularity) *rollcall.Granularity { return append(pointers(g), nil)[0] })
	aText     = rapid.StringOfN(rapid.RuneFrom([]rune("ab <&>\"\\é😀")), 0, 24, subjects.MaxStatusText)
	anAvail   = rapid.SampledFrom([]rollcall.Availability{rollcall.Available, rollcall.Away, rollcall.DoNotDisturb, rollcall.Invisible})
	aPriority = rapid.IntRange(0, subjects.MaxPriority)
	anInstant = rapid.Map(rapid.Int64Range(0, 253402300799e6), func(us int64) time.Time { return time.UnixMicro(us).UTC() })

	someRelations = rapid.Custom(func(t *rapid.T) subjects.Relations {
		return subjects.Relations{Contact: someGran.Draw(t, "contact"), Member: someGran.Draw(t, "member"), Everyone: someGran.Draw(t, "everyone")}
	})
	aStatus = rapid.Custom(func(t *rapid.T) subjects.ManualStatus {
		s := subjects.ManualStatus{Availability: anAvail.Draw(t, "availability"), Text: aText.Draw(t, "text"), Priority: aPriority.Draw(t, "priority")}
		if rapid.Bool().Draw(t, "ends") {
			s.Until = anInstant.Draw(t, "until")
		}
		return s
	})
	aView = rapid.Custom(func(t *rapid.T) subjects.View {
		v := subjects.View{Target: anID.Draw(t, "target"), Version: aNumber.Draw(t, "version")}
		v.Status = rapid.SampledFrom([]rollcall.Status{rollcall.StatusOnline, rollcall.StatusOffline, rollcall.StatusRecently,
			rollcall.StatusLongAgo, rollcall.StatusUnknown}).Draw(t, "status")
		exact := rapid.Bool().Draw(t, "exact")
		switch {
		case !exact:
		case v.Status == rollcall.StatusOffline:
			v.LastSeenMinute = aMinute.Draw(t, "seen")
			v.ObservedAtMinute = aMinute.Draw(t, "observed")
		case v.Status == rollcall.StatusOnline:
			v.State = rapid.SampledFrom([]string{"active", "idle", "background"}).Draw(t, "state")
			v.Activity = rapid.StringN(0, 21, subjects.MaxActivity).Draw(t, "activity")
			v.Availability = rapid.SampledFrom([]string{"", "away", "dnd", "invisible"}).Draw(t, "availability")
			v.Text, v.ObservedAtMinute = aText.Draw(t, "text"), aMinute.Draw(t, "observed")
		}
		return v
	})
	aChange = rapid.Custom(func(t *rapid.T) subjects.View {
		if rapid.IntRange(0, 3).Draw(t, "withdrawn") > 0 {
			return aView.Draw(t, "view")
		}
		return subjects.View{Target: anID.Draw(t, "target"), Status: subjects.StatusWithdrawn, Version: aNumber.Draw(t, "version")}
	})
	aPosition = rapid.Custom(func(t *rapid.T) subjects.Position {
		p := subjects.Position{Shard: rapid.IntRange(0, subjects.MaxShards-1).Draw(t, "shard"), Generation: aNumber.Draw(t, "generation"),
			Seq: aNumber.Draw(t, "seq"), Feed: subjects.FeedLive, Targets: rapid.IntRange(0, subjects.MaxTargets).Draw(t, "targets")}
		if rapid.Bool().Draw(t, "stalled") {
			p.Feed, p.Reason = subjects.FeedStalled, rapid.SampledFrom([]string{"keeper_silent", "feed_behind", "later"}).Draw(t, "reason")
		}
		return p
	})
)

var (
	aDeviceSession = rapid.Custom(func(t *rapid.T) subjects.DeviceSession {
		return subjects.DeviceSession{SessionID: "g1." + rapid.StringMatching("[A-Za-z0-9_-]{22}").Draw(t, "id"), SessionEpoch: int64(aNumber.Draw(t, "epoch") | 1)}
	})
	aDeviceAnswer = rapid.Custom(func(t *rapid.T) subjects.DeviceAnswer {
		return subjects.DeviceAnswer{
			ServerTime:        subjects.DeviceTime(rapid.Int64Range(0, 253402300799e3).Draw(t, "ms") * 1000),
			NextHeartbeatInMs: rapid.Int64Range(1, 1e6).Draw(t, "next"),
		}
	})
	aDeviceOpened = rapid.Custom(func(t *rapid.T) subjects.DeviceOpenAnswer {
		s := aDeviceSession.Draw(t, "session")
		return subjects.DeviceOpenAnswer{
			SessionID: s.SessionID, SessionEpoch: s.SessionEpoch, HeartbeatIntervalMs: 30_000, IdleThresholdMs: 300_000, IdleTimeoutMs: 75_000,
			DeviceAnswer: aDeviceAnswer.Draw(t, "answer"),
		}
	})
)

// requested reads a request of a device as a front door does.
func requested[T interface{ Check() error }](body []byte) (r T, err error) {
	if err := subjects.DecodeDevice(body, &r); err != nil {
		return r, err
	}
	return r, r.Check()
}

func pointers[T any](list []T) (all []*T) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

// holds marshals values, validates them and reads them again.
func holds[T any](t *testing.T, name string, values *rapid.Generator[T], decode func([]byte) (T, error)) {
	t.Helper()
	s := compile(t)(name)
	t.Run(name, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := values.Draw(t, name)
			body, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if err := verdict(t, s, string(body)); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if got, err := decode(body); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s became %+v (%v)", body, got, err)
			}
		})
	})
}

func plainly[T any](body []byte) (v T, err error) {
	err = json.Unmarshal(body, &v)
	return v, err
}

func TestWhatTheTypesWriteValidates(t *testing.T) {
	holds(t, "view", aChange, plainly[subjects.View])
	holds(t, "position", aPosition, plainly[subjects.Position])
	holds(t, "message", rapid.Custom(func(t *rapid.T) (m subjects.Message) {
		m.Position = aPosition.Draw(t, "position")
		if rapid.Bool().Draw(t, "news") {
			m.Changes = rapid.SliceOfN(aChange, 1, 3).Draw(t, "changes")
		}
		return m
	}), subjects.DecodeMessage)
	holds(t, "reply", rapid.Custom(func(t *rapid.T) subjects.Reply {
		r := subjects.Reply{Shards: []subjects.ShardSnapshot{}}
		for range rapid.IntRange(0, 3).Draw(t, "shards") {
			s := subjects.ShardSnapshot{Position: aPosition.Draw(t, "position")}
			if rapid.Bool().Draw(t, "seen") {
				s.Views = rapid.SliceOfN(aView, 1, 3).Draw(t, "views")
			}
			r.Shards = append(r.Shards, s)
		}
		return r
	}), subjects.DecodeReply)
	holds(t, "status", aStatus, plainly[subjects.ManualStatus])
	holds(t, "policy", rapid.Custom(func(t *rapid.T) subjects.Policy {
		p := subjects.Policy{User: anID.Draw(t, "user"), Relations: someRelations.Draw(t, "relations")}
		if rapid.Bool().Draw(t, "lists") {
			p.Contacts, p.Blocks, p.Groups = someIDs.Draw(t, "contacts"), someIDs.Draw(t, "blocks"), someIDs.Draw(t, "groups")
			p.Overrides = rapid.MapOfN(anID, aGran, 1, 3).Draw(t, "overrides")
			p.Statuses = rapid.SliceOfN(aStatus, 1, 3).Draw(t, "statuses")
		}
		return p
	}), subjects.DecodePolicy)
	holds(t, "sight-question", rapid.Custom(func(t *rapid.T) subjects.SightQuestion {
		return subjects.SightQuestion{Viewer: anID.Draw(t, "viewer"), Targets: someIDs.Draw(t, "targets")}
	}), subjects.DecodeSightQuestion)
	holds(t, "sight-answer", rapid.Custom(func(t *rapid.T) subjects.SightAnswer {
		return subjects.SightAnswer{Sights: rapid.SliceOfN(aGran, 1, 4).Draw(t, "sights")}
	}), subjects.DecodeSightAnswer)
	holds(t, "sight-change", rapid.Custom(func(t *rapid.T) subjects.SightChange {
		c := subjects.SightChange{Viewer: anID.Draw(t, "viewer"), Target: anID.Draw(t, "target")}
		switch rapid.IntRange(0, 2).Draw(t, "named") {
		case 0:
			c.Viewer = ""
		case 1:
			c.Target = ""
		}
		return c
	}), subjects.DecodeSightChange)
	holds(t, "stats", rapid.Custom(func(t *rapid.T) subjects.Stats {
		number := rapid.IntRange(0, 1e9)
		s := subjects.Stats{
			AsOf: anInstant.Draw(t, "as of"), Shards: rapid.SliceOfDistinct(rapid.IntRange(0, 9), rapid.ID).Draw(t, "shards"), ShardsTotal: 10,
			Online: number.Draw(t, "online"), Active: number.Draw(t, "active"), Definition: "1", Today: []subjects.StatsToday{},
		}
		if rapid.Bool().Draw(t, "counted") {
			count := subjects.StatsCount{Users: number.Draw(t, "users"), Seconds: subjects.Seconds(rapid.Int64Range(0, 1e15).Draw(t, "ms"))}
			s.Today = append(s.Today, subjects.StatsToday{Zone: "UTC", Date: "2026-01-01", Measures: map[string]subjects.StatsCount{"connected": count}})
		}
		return s
	}), subjects.DecodeStats)
	holds(t, "keeper-stats", rapid.Custom(func(t *rapid.T) subjects.KeeperStats {
		some := rapid.Uint64Range(0, 1<<53-1)
		return subjects.KeeperStats{
			At: anInstant.Draw(t, "at"), Since: anInstant.Draw(t, "since"), Holder: anID.Draw(t, "holder"), Member: anID.Draw(t, "member"), ShardsTotal: 4,
			Shards:   []subjects.KeeperShard{{Shard: 1, Generation: some.Draw(t, "generation"), Ready: rapid.Bool().Draw(t, "ready")}},
			Counters: map[string]uint64{"ticks_total": some.Draw(t, "ticks")},
			Ways:     []subjects.KeeperWay{{Way: "close", Min: -1, Latest: 20_000, Count: some.Draw(t, "count")}},
		}
	}), subjects.DecodeKeeperStats)
	holds(t, "device-answer#/$defs/open", aDeviceOpened, plainly[subjects.DeviceOpenAnswer])
	holds(t, "device-answer#/$defs/live", aDeviceAnswer, plainly[subjects.DeviceAnswer])
	holds(t, "device-request#/$defs/open", rapid.Custom(func(t *rapid.T) subjects.DeviceOpenRequest {
		return subjects.DeviceOpenRequest{
			Device: anID.Draw(t, "device"), Foreground: new(rapid.Bool().Draw(t, "foreground")), Active: new(rapid.Bool().Draw(t, "active")),
			Activity: rapid.StringN(0, 21, subjects.MaxActivity).Draw(t, "activity"), Session: anID.Draw(t, "session"),
			Client: subjects.DeviceClient{Type: rapid.StringN(0, 21, subjects.MaxClient).Draw(t, "type")},
		}
	}), requested[subjects.DeviceOpenRequest])
	holds(t, "device-request#/$defs/heartbeat", rapid.Custom(func(t *rapid.T) subjects.DeviceHeartbeatRequest {
		r := subjects.DeviceHeartbeatRequest{DeviceSession: aDeviceSession.Draw(t, "session"), Seq: rapid.Uint32Range(1, subjects.MaxDeviceSeq).Draw(t, "seq")}
		if rapid.Bool().Draw(t, "state") {
			r.Active, r.Activity = new(rapid.Bool().Draw(t, "active")), new(rapid.StringN(0, 21, subjects.MaxActivity).Draw(t, "activity"))
		}
		return r
	}), requested[subjects.DeviceHeartbeatRequest])
	holds(t, "device-request#/$defs/state", rapid.Custom(func(t *rapid.T) subjects.DeviceStateRequest {
		return subjects.DeviceStateRequest{DeviceSession: aDeviceSession.Draw(t, "session"), Foreground: new(rapid.Bool().Draw(t, "foreground")), Active: new(true)}
	}), requested[subjects.DeviceStateRequest])
	holds(t, "device-request#/$defs/close", rapid.Custom(func(t *rapid.T) subjects.DeviceCloseRequest {
		return subjects.DeviceCloseRequest{DeviceSession: aDeviceSession.Draw(t, "session"), Reason: rapid.SampledFrom([]string{"", subjects.DeviceGoodbye, subjects.DeviceLogout}).Draw(t, "reason")}
	}), requested[subjects.DeviceCloseRequest])
	holds(t, "device-error", rapid.Custom(func(t *rapid.T) subjects.DeviceRefusal {
		e := subjects.DeviceErrorf(rapid.SampledFrom(subjects.DeviceCodes[:]).Draw(t, "code"), "because")
		e.RetryAfter = time.Duration(rapid.IntRange(0, 9).Draw(t, "seconds")) * time.Second
		return subjects.DeviceRefusal{Error: e}
	}), plainly[subjects.DeviceRefusal])
	for _, op := range subjects.PolicyOps {
		holds(t, "policy-request#/$defs/"+string(op), requestOf(op), func(b []byte) (subjects.PolicyRequest, error) { return subjects.DecodePolicyRequest(op, b) })
	}
}

// requestOf makes requests of one operation, as a Go client would.
func requestOf(op subjects.PolicyOp) *rapid.Generator[subjects.PolicyRequest] {
	if op == subjects.PolicyGet || op == subjects.PolicyForget {
		return rapid.Just(subjects.PolicyRequest{})
	}
	return rapid.Custom(func(t *rapid.T) (r subjects.PolicyRequest) {
		switch op {
		case subjects.PolicySet:
			r.Relations = someRelations.Draw(t, "relations")
			if r.Relations == (subjects.Relations{}) || rapid.Bool().Draw(t, "defaults") {
				r.Default = rapid.SliceOfN(rapid.SampledFrom([]string{"contact", "member", "everyone"}), 1, 3).Draw(t, "default")
			}
		case subjects.PolicyAllow:
			r.Users, r.Granularity = someIDs.Draw(t, "users"), new(aGran.Draw(t, "granularity"))
		case subjects.PolicyReset, subjects.PolicyBlock, subjects.PolicyUnblock, subjects.PolicyContact, subjects.PolicyUncontact:
			r.Users = someIDs.Draw(t, "users")
		case subjects.PolicyStatus:
			r.Status = new(aStatus.Draw(t, "status"))
		case subjects.PolicyClear:
			if rapid.Bool().Draw(t, "one") {
				r.Priority = new(aPriority.Draw(t, "priority"))
			}
		case subjects.PolicyJoin, subjects.PolicyLeave:
			r.Groups = someIDs.Draw(t, "groups")
		}
		return r
	})
}
