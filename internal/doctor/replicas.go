package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// replicas looks at how often everything is stored, and whether the copies are complete. What a
// server has done to many streams is one finding.
func (e *examination) replicas(context.Context) {
	sizes := make(map[int]bool)
	var leaderless, unmade []string
	offline, behind := make(map[string][]string), make(map[string][]string)
	for _, s := range e.infos {
		sizes[s.Config.Replicas] = true
		if s.Cluster == nil {
			continue
		}
		if s.Cluster.Leader == "" {
			leaderless = append(leaderless, s.name())
			continue
		}
		if len(s.Cluster.Replicas) < s.Config.Replicas-1 {
			unmade = append(unmade, s.name())
		}
		for _, r := range s.Cluster.Replicas {
			switch {
			case r.Offline:
				offline[r.Name] = append(offline[r.Name], s.name())
			case !r.Current:
				behind[r.Name] = append(behind[r.Name], s.name()+lag(r))
			}
		}
	}
	bad := len(leaderless)+len(unmade)+len(offline)+len(behind) > 0
	if len(leaderless) > 0 {
		e.say("replicas", Problem, "no leader, since more than half of the replicas are away, and so nothing can be written: %s", some(leaderless))
	}
	for _, server := range slices.Sorted(maps.Keys(offline)) {
		e.say("replicas", Problem, "%s is offline, and with it replicas of %s: %s", server, count(len(offline[server]), "stream"), some(offline[server]))
	}
	for _, server := range slices.Sorted(maps.Keys(behind)) {
		e.say("replicas", Warning, "%s catches up with %s: %s", server, count(len(behind[server]), "stream"), some(behind[server]))
	}
	if len(unmade) > 0 {
		e.say("replicas", Warning, "some replicas are not there yet: %s", some(unmade))
	}
	if !e.numbers(slices.Sorted(maps.Keys(sizes))) && !bad && len(sizes) > 0 {
		for n := range sizes {
			e.say("replicas", OK, "%s of everything, complete", count(n, "replica"))
		}
	}
}

func lag(r *jetstream.PeerInfo) string {
	if r.Lag == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d operations behind)", r.Lag)
}

// numbers says whether there was something to say about how many replicas there are.
func (e *examination) numbers(sizes []int) (said bool) {
	if len(sizes) > 1 {
		said = true
		e.say("replicas", Warning, "not everything has the same number of replicas: some %d, some %d; 'rollcall init --replicas %[2]d' changes it", sizes[0], sizes[len(sizes)-1])
	}
	for _, n := range sizes {
		switch {
		case n == 1 && e.nc.ConnectedClusterName() != "":
			said = true
			e.say("replicas", Warning, "one replica on a cluster: what is on a server is away while that server is; 'rollcall init --replicas 3' changes it")
		case n%2 == 0:
			said = true
			e.say("replicas", Note, "%d replicas bear the loss of no more servers than %d do", n, n-1)
		}
	}
	return said
}
