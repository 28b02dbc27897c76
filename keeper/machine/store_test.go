package machine

import (
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A store is the buckets of a shard. It keeps every record that was ever written
// to the views, in order.
type store struct {
	Records
	history []View
}

func newStore() *store {
	return &store{Records: Records{
		Edges: make(map[string]*wire.EdgeRecord), Users: make(map[string]*wire.UserRecord), Views: make(map[string]*wire.View),
	}}
}

// write writes changes in the order that the machine asks for. The process dies
// after the given number of records; it survives a negative one. True means that
// everything is written.
func (s *store) write(c Changes, dies int) bool {
	alive := func() bool { dies--; return dies != -1 }
	for _, v := range c.Views {
		if !alive() {
			return false
		}
		s.Views[v.User] = proto.CloneOf(v.Record)
		s.history = append(s.history, View{v.User, proto.CloneOf(v.Record)})
	}
	for _, u := range c.Users {
		if !alive() {
			return false
		}
		put(s.Users, u.ID, u.Record)
	}
	for _, e := range c.Edges {
		if !alive() {
			return false
		}
		put(s.Edges, e.ID, e.Record)
	}
	return true
}

func put[M interface {
	proto.Message
	comparable
}](records map[string]M, id string, record M,
) {
	var none M
	if record == none {
		delete(records, id)
		return
	}
	records[id] = proto.CloneOf(record)
}

// copied is what a keeper reads that takes over now.
func (s *store) copied() Records {
	r := newStore().Records
	r.Checkpoint = proto.CloneOf(s.Checkpoint)
	for id, v := range s.Views {
		r.Views[id] = proto.CloneOf(v)
	}
	for id, u := range s.Users {
		r.Users[id] = proto.CloneOf(u)
	}
	for id, e := range s.Edges {
		r.Edges[id] = proto.CloneOf(e)
	}
	return r
}

// changes counts the records in a set of changes.
func changes(c Changes) int { return len(c.Views) + len(c.Users) + len(c.Edges) }
