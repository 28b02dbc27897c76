package fanout_test

import (
	"math/rand/v2"
	"time"

	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
)

// An ensemble is several fanouts between which shards move.
type ensemble struct {
	s        *stage.Stage
	registry *stage.Registry
	fanouts  []*stage.Running
}

func newEnsemble(s *stage.Stage, n int) *ensemble {
	e := &ensemble{s: s, registry: stage.NewRegistry()}
	for i := range n {
		m := e.registry.Join()
		for shard := i; shard < s.Fabric.Shards(); shard += n {
			m.Take(shard, false)
		}
		e.fanouts = append(e.fanouts, s.LaunchMember(m, fanout.Config{}))
	}
	return e
}

func (e *ensemble) suffer(random *rand.Rand) {
	i := random.IntN(len(e.fanouts))
	f := e.fanouts[i]
	pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	others := func() {
		for _, shard := range f.Member.Owns() {
			e.other(random, i).Member.Take(shard, true)
		}
	}
	switch random.IntN(6) {
	case 0: // a shard is handed over, or a fanout told of it that was paused
		f.Member.Take(random.IntN(e.s.Fabric.Shards()), random.IntN(2) == 0)
	case 1:
		f.Link.Delay(time.Duration(random.IntN(80)) * time.Millisecond)
	case 2: // it hangs, and may be missed
		if f.NATS.IsConnected() {
			f.Link.Delay(0)
			f.Link.Freeze()
			pause(8 * time.Second)
			if random.IntN(2) == 0 {
				others()
				pause(8 * time.Second)
			}
			f.Link.Thaw()
		}
	case 3: // it is cut off
		f.Link.Delay(0)
		f.Link.Cut()
		pause(10 * time.Second)
		if random.IntN(2) == 0 {
			others()
		}
		f.Link.Heal()
	case 4, 5: // it is killed, or leaves
		if random.IntN(2) == 0 {
			f.Link.Cut()
		}
		f.Crash()
		pause(10 * time.Second)
		others()
		e.fanouts[i] = e.s.LaunchMember(e.registry.Join(), fanout.Config{})
	}
}

func (e *ensemble) other(random *rand.Rand, than int) *stage.Running {
	return e.fanouts[(than+1+random.IntN(len(e.fanouts)-1))%len(e.fanouts)]
}

func (e *ensemble) recover() {
	for _, f := range e.fanouts {
		f.Link.Delay(0)
		f.Link.Heal()
	}
}
