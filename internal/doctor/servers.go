package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// A jetStream is what a server says of its own.
type jetStream struct {
	Server struct {
		Name    string `json:"name"`
		Version string `json:"ver"`
	} `json:"server"`
	Data struct {
		Disabled bool   `json:"disabled"`
		Store    uint64 `json:"storage"`
		Config   struct {
			MaxStore     int64         `json:"max_storage"`
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
		} `json:"config"`
		Meta *struct {
			Leader   string `json:"leader"`
			Size     int    `json:"cluster_size"`
			Replicas []struct {
				Name    string        `json:"name"`
				Offline bool          `json:"offline"`
				Current bool          `json:"current"`
				Heard   time.Duration `json:"active"` // so long ago
			} `json:"replicas"`
		} `json:"meta_cluster"`
	} `json:"data"`
}

// servers asks all servers how they are.
func (e *examination) servers(ctx context.Context) error {
	if e.System == nil {
		e.say("servers", Note, "whether all servers are there, how they sync and how full they are is told to the system account only (--system-creds)")
		return nil
	}
	all, err := e.jetStreams(ctx)
	if err != nil || len(all) == 0 {
		e.say("servers", Note, "no server tells how it is: %v", err)
		return ctx.Err()
	}
	slices.SortFunc(all, func(a, b jetStream) int { return strings.Compare(a.name(), b.name()) })
	e.cluster(all)
	e.disks(all)
	return nil
}

// cluster looks at who is missing, as the leader tells, or everybody where there is none.
func (e *examination) cluster(all []jetStream) {
	var versions, away []string
	var led *jetStream
	sound, clustered := true, false
	for i, s := range all {
		versions = append(versions, s.Server.Version)
		if s.Data.Disabled {
			sound = false
			e.say("servers", Problem, "%s has turned JetStream off, as it does when its disk is full or fails: make room, and start it again", s.name())
		}
		if s.Data.Meta == nil {
			continue
		}
		clustered = true
		if led == nil || s.Data.Meta.Leader == s.Server.Name {
			led = &all[i]
		}
	}
	if clustered {
		meta := led.Data.Meta
		for _, r := range meta.Replicas {
			answered := slices.ContainsFunc(all, func(s jetStream) bool { return s.Server.Name == r.Name })
			if r.Offline || meta.Leader == "" && !answered || meta.Leader == led.Server.Name && !r.Current {
				who := r.Name
				if r.Heard > 0 {
					who += fmt.Sprintf(" (last heard %s ago)", round(r.Heard))
				}
				away = append(away, who)
			}
		}
		slices.Sort(away)
		switch {
		case meta.Leader == "":
			sound = false
			e.say("servers", Problem, "no majority of the %s is there, so nothing can be stored: away are %s", count(meta.Size, "server"), some(away))
		case len(away) > 0:
			sound = false
			e.say("servers", Problem, "of %s that store, %d away: %s; 'nats server raft peer-remove' takes one out that never comes back", count(meta.Size, "server"), len(away), some(away))
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		e.say("servers", Note, "not all servers are of one version: %s", join(versions))
	}
	if sound {
		e.say("servers", OK, "%s, none missing", count(len(all), "server"))
	}
}

// Parts of a server's or account's storage in use that are worth a word. Above the last one little
// is left for what a fabric writes until somebody has made room.
const (
	fullWarning = 80
	fullProblem = 90
)

// fullness says how bad it is to have used so much; limit 0 is none.
func fullness(used, limit uint64) Level {
	switch {
	case limit == 0 || used < limit/100*fullWarning:
		return OK
	case used < limit/100*fullProblem:
		return Warning
	}
	return Problem
}

const aboutToFail = ": at 100 % writes are refused, nobody goes online or offline, and views stay as they are; make room or raise the limit (docs/production.md)"

// disks looks at how the servers keep what they have acknowledged.
func (e *examination) disks(all []jetStream) {
	var later []string
	for _, s := range all {
		c := s.Data.Config
		limit := uint64(max(c.MaxStore, 0))
		if level := fullness(s.Data.Store, limit); level != OK {
			e.say("disks", level, "%s has stored %s of %s (%d %%)%s", s.name(), size(s.Data.Store), size(limit), 100*s.Data.Store/limit, aboutToFail)
		}
		if !c.SyncAlways {
			later = append(later, fmt.Sprintf("%s every %s", s.name(), c.SyncInterval))
		}
	}
	switch {
	case len(later) == 0:
		e.say("disks", OK, "%s synced before anything is acknowledged", count(len(all), "server"))
	case len(later) < len(all):
		e.say("disks", Warning, "servers sync differently: %s, others before they acknowledge", some(later))
	default:
		e.say("disks", OK, "synced later than acknowledged: %s; what a power cut takes, edges repair with their next renewal", some(later))
	}
}

// name of a server; those without one are named by a key, which is long.
func (s jetStream) name() string {
	const long = 48
	if name := s.Server.Name; len(name) <= long {
		return name
	}
	return s.Server.Name[:8] + "…"
}

// jetStreams asks all servers, who answer one by one.
func (e *examination) jetStreams(ctx context.Context) (all []jetStream, err error) {
	const quiet = 500 * time.Millisecond
	inbox := e.System.NewRespInbox()
	answers := make(chan *nats.Msg, 64)
	sub, err := e.System.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := e.System.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, nil); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(quiet):
			return all, nil
		case m := <-answers:
			var s jetStream
			if err := json.Unmarshal(m.Data, &s); err != nil || strings.TrimSpace(s.Server.Name) == "" {
				continue // such as that there are no responders
			}
			all = append(all, s)
		}
	}
}
