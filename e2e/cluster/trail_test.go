//go:build cluster

package cluster

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// TestTrail shows what is found in the history of a bucket, and what is not complained about.
func TestTrail(t *testing.T) {
	const bucket = "b"
	owner := subjects.KVSubject(bucket, subjects.KeyOwner)
	write := func(seq uint64, key string, record proto.Message, headers ...string) feed.Msg {
		m := feed.Msg{Subject: subjects.KVSubject(bucket, key), Seq: seq, Header: nats.Header{}}
		if record != nil {
			var err error
			if m.Data, err = subjects.Encode(record); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		return m
	}
	const expect, about, id, place = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Batch-Id", "Nats-Batch-Sequence"
	takes := func(seq, generation uint64, behind string) feed.Msg {
		return write(seq, subjects.KeyOwner, &wire.OwnerRecord{Generation: generation}, expect, behind)
	}
	view := func(seq, version uint64, headers ...string) feed.Msg {
		return write(seq, subjects.KeyView("ann"), &wire.View{Version: version}, headers...)
	}
	under := func(seq, version uint64, fence string) feed.Msg {
		return view(seq, version, expect, fence, about, owner)
	}
	for _, c := range []struct {
		name    string
		history []feed.Msg
		wrong   string // what the only complaint says; empty for none
		tied    int
	}{
		{"one owner after the other", []feed.Msg{takes(1, 7, "0"), under(2, 1, "1"), takes(3, 8, "1"), under(4, 1, "3")}, "", 2},
		{"a batch", []feed.Msg{takes(1, 7, "0"), view(2, 1, id, "x", place, "1", expect, "1", about, owner), view(3, 2, id, "x", place, "2")}, "", 2},
		{"a batch whose first was replaced", []feed.Msg{takes(1, 7, "0"), view(3, 2, id, "x", place, "2")}, "", 0},
		{"an expired key", []feed.Msg{takes(1, 7, "0"), write(2, subjects.KeyView("ann"), nil, server.JSMarkerReason, "MaxAge")}, "", 0},
		{"an owner's record replaced before it was read", []feed.Msg{takes(1, 7, "0"), under(3, 1, "2"), takes(4, 9, "2")}, "", 1},
		{"an owner who has been taken over", []feed.Msg{takes(1, 7, "0"), takes(2, 8, "1"), under(3, 1, "1")}, "expects the owner's record to be 1, and it is 2", 1},
		{"one who was taken over by a record that was not read", []feed.Msg{takes(1, 7, "0"), under(3, 1, "1"), takes(4, 9, "2")}, "expects the owner's record to be 1, and it is 2", 1},
		{"a batch of one", []feed.Msg{takes(1, 7, "0"), takes(2, 8, "1"), view(3, 1, id, "x", place, "1", expect, "1", about, owner)}, "expects the owner's record to be 1", 1},
		{"a batch with a hole", []feed.Msg{takes(1, 7, "0"), view(2, 1, id, "x", place, "1", expect, "1", about, owner), view(4, 2, id, "x", place, "2")}, "is number 2 of a batch that begins at 2", 2},
		{"two of them in a row", []feed.Msg{takes(1, 7, "0"), under(3, 1, "2"), under(6, 1, "5"), takes(7, 10, "5")}, "", 2},
		{"one before them who goes on", []feed.Msg{takes(1, 7, "0"), under(3, 1, "2"), under(4, 1, "1"), under(6, 1, "5")}, "expects the owner's record to be 1, and it is 2", 3},
		{"a record of somebody else's in place of an owner's", []feed.Msg{takes(1, 7, "0"), under(2, 1, "1"), under(3, 1, "2")}, "expects the owner's record to be 2, and it is 1", 2},
		{"no fence", []feed.Msg{view(1, 1)}, "expects nothing", 1},
		{"another fence", []feed.Msg{takes(1, 7, "0"), view(2, 1, expect, "1", about, "x")}, `expects something of "x"`, 1},
		{"a generation that is not newer", []feed.Msg{takes(1, 7, "0"), takes(2, 7, "1")}, "goes back to 7, where at least 8", 0},
		{"an owner's record that is not behind the last", []feed.Msg{takes(1, 7, "0"), takes(2, 8, "1"), takes(3, 9, "1")}, "expects the owner's record to be 1, and it is 2", 0},
		{"a view that goes back", []feed.Msg{takes(1, 7, "0"), under(2, 5, "1"), under(3, 4, "1")}, "goes back to 4, where at least 5", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTrail(bucket, keeper)
			for _, m := range c.history {
				tr.follow(m)
			}
			wrong, sum := tr.judge()
			if c.wrong == "" && len(wrong) > 0 || c.wrong != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.wrong)) {
				t.Errorf("found %q, want %q", wrong, c.wrong)
			}
			if sum.tied != c.tied {
				t.Errorf("%d writes are tied to an owner, want %d", sum.tied, c.tied)
			}
		})
	}
}
