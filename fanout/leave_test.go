package fanout_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// Fanouts come and go politely. Every request is answered, and what is refused is so for a
// moment only, until the next owner of a shard has loaded it.
func TestFanoutsComeAndGo(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 6)
		people := users(30)
		s.PutAll(people, rollcall.Active)
		fanouts := s.StartSeveral(2, fanout.Config{})
		end := make(chan struct{})
		var asking sync.WaitGroup
		for i := range 8 {
			v := newRaw(s, fmt.Sprint("viewer-", i))
			asking.Go(func() { askOnAndOn(v, people, end) })
		}
		for range 5 {
			time.Sleep(5 * time.Second)
			leaving, stays := fanouts[0], fanouts[1]
			comes := s.LaunchMember(stays.Member.Another(), fanout.Config{})
			for i, shard := range leaving.Member.Owns() {
				[]*stage.Running{stays, comes}[i%2].Member.Take(shard, false)
			}
			if err := leaving.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if <-leaving.Ended; leaving.Err != nil {
				t.Error(leaving.Err)
			}
			leaving.Crash() // what comes for it is lost
			fanouts = []*stage.Running{stays, comes}
		}
		close(end)
		asking.Wait()
	})
}

// askOnAndOn makes ten requests a second, all of them for every shard.
func askOnAndOn(v *raw, people []string, end <-chan struct{}) {
	var refused time.Time // since when
	for i := 0; ; i++ {
		select {
		case <-end:
			return
		case <-time.After(100 * time.Millisecond):
		}
		op := []subjects.Op{subjects.OpSubscribe, subjects.OpGet, subjects.OpRefresh}[i%3]
		m, err := v.nc.Request(v.names.Request(op, v.id), body(people...), 5*time.Second)
		switch {
		case err != nil:
			v.t.Errorf("%s: %s at %v: %v", v.id, op, time.Now(), err)
			return
		case m.Header.Get(micro.ErrorCodeHeader) == "":
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > 200*time.Millisecond:
			v.t.Errorf("%s: refused for %v: %s", v.id, time.Since(refused), m.Header.Get(micro.ErrorHeader))
			return
		}
	}
}
