//go:build cluster

package cluster

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

var (
	evidence = flag.String("evidence", "", "file for the table of figures")
	logs     = flag.String("logs", "", "keep what the processes say in this directory")
	only     = flag.String("only", "", "run only the faults whose name matches")
)

// A fault begins, holds for a while, and ends.
type fault struct {
	name  string
	begin func()
	hold  time.Duration
	end   func()
	// late is by how much later than usual a leave may be shown, as the design has it: the takeover, or the
	// outage of the store and one renewal.
	late time.Duration
	// dead is a gateway that takes no orders meanwhile; −1 for none.
	dead int
	limits
}

// limits are what a fault is held against besides; what they leave open is only measured.
type limits struct {
	known bool   // no view may turn unknown
	takes string // the part whose buckets must be taken over, and go on within longestTakeover
	by    *process
}

// Parts of a fabric that own buckets.
const (
	keeper = "keeper"
	fanout = "fanout"
)

// longestTakeover is the takeover of the design, and what two cores add that run everything here and more.
const longestTakeover = takeover + 3*time.Second

func TestCluster(t *testing.T) {
	begin := time.Now()
	w := newWorld(t)
	started := time.Since(begin)
	table := header
	w.lose(gateways, takeover+params().LongestRenewal()+10*time.Second) // servers fail too before its lease ends
	for n, f := range w.faults() {
		if matched, err := regexp.MatchString(*only, f.name); err != nil || !matched {
			continue
		}
		row := w.strike(n, f)
		t.Log(row)
		table += row + "\n"
	}
	table += w.lost()
	w.audience.checkVersions()
	table += fmt.Sprintf("two ledgers, one of them killed, and both restarted, count %d online at the end, as many as are connected\n", w.count(patience))
	table += "\n" + bounded + "\n" + w.owners.judge()
	table += fmt.Sprintf("\n%d users at %d gateways, %d viewers; started in %s, all in %s\n", users, gateways, viewers, started.Round(time.Second), time.Since(begin).Round(time.Second))
	t.Logf("\n%s", table)
	if *evidence != "" && !t.Failed() {
		if err := os.WriteFile(*evidence, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var bounded = fmt.Sprintf(`No view may turn unknown with nothing, a following server killed or paused, a keeper, fanout or gateway killed or paused, a ledger
killed, and while everything is restarted. From a keeper or fanout that is killed or paused the other one must have taken over before it comes
back, with keepers silent or viewers unanswered for at most %s: %s by design, and a margin for two shared cores.
The other silences, and views that turn unknown, are only measured.
`, longestTakeover, takeover)

const header = "fault                                     held  keeper silent  unanswered  unknown (pairs, reason)           slowest leave  all right after\n"

func (w *world) faults() []fault {
	renewal := params().LongestRenewal()
	outage := func(hold time.Duration) time.Duration { return hold + renewal + takeover }
	nothing := func() {}
	var victim int
	server := func() *node { return w.servers.nodes[victim] }
	paused, partition := 13*time.Second, 22*time.Second
	lost := longestTakeover + time.Second // nobody comes back before the others must have taken over
	measured, known := limits{}, limits{known: true}
	return []fault{
		{"nothing", nothing, 3 * time.Second, nothing, 0, -1, known},
		{"a following server killed", func() { victim = w.follower(); server().kill() }, 6 * time.Second, func() { server().start(); w.whole() }, takeover, -1, known},
		{"a leading server killed", func() { victim = w.leader(); server().kill() }, 8 * time.Second, func() { server().start(); w.whole() }, outage(10 * time.Second), -1, measured},
		{"a following server paused", func() { victim = w.follower(); server().pause() }, paused, func() { server().resume(); w.whole() }, outage(paused), -1, known},
		{"a leading server paused", func() { victim = w.leader(); server().pause() }, paused, func() { server().resume(); w.whole() }, outage(paused), -1, measured},
		{"a leading server cut off", func() { victim = w.leader(); w.servers.cut(victim, true) }, partition, func() { w.servers.cut(victim, false); w.whole() }, outage(partition), -1, measured},
		{"a following server cut off", func() { victim = w.follower(); w.servers.cut(victim, true) }, partition, func() { w.servers.cut(victim, false); w.whole() }, outage(partition), -1, measured},
		{"a machine lost: server, keeper, fanout", func() { victim = w.leader(); server().kill(); w.keepers[0].kill(); w.fanouts[0].kill() }, takeover + 3*time.Second,
			func() { server().start(); w.begin(w.keepers[0]); w.begin(w.fanouts[0]); w.whole() }, outage(10 * time.Second), -1, measured},
		{"a keeper killed", func() { w.keepers[0].kill() }, lost, func() { w.begin(w.keepers[0]) }, takeover, -1, limits{true, keeper, w.keepers[1]}},
		{"a keeper paused", func() { w.keepers[1].pause() }, lost, func() { w.keepers[1].resume() }, takeover, -1, limits{true, keeper, w.keepers[0]}},
		{"a fanout killed", func() { w.fanouts[0].kill() }, lost, func() { w.begin(w.fanouts[0]) }, takeover, -1, limits{true, fanout, w.fanouts[1]}},
		{"a fanout paused", func() { w.fanouts[1].pause() }, lost, func() { w.fanouts[1].resume() }, takeover, -1, limits{true, fanout, w.fanouts[0]}},
		{"a ledger killed", func() { w.ledgers[0].kill() }, 2 * time.Second, func() { w.count(longestTakeover); w.begin(w.ledgers[0]) }, 0, -1, known},
		{"a gateway killed, and back", func() { w.crash(0) }, 3 * time.Second, func() { w.comeBack(0) }, 0, 0, known},
		{"a gateway paused", func() { w.gateways[1].pause() }, 8 * time.Second, func() { w.gateways[1].resume() }, 0, 1, known},
		{"everything restarted in turn", w.restartAll, 0, nothing, outage(10 * time.Second), -1, known},
		{"two servers stopped: no quorum", func() { w.servers.nodes[0].kill(); w.servers.nodes[1].kill() }, partition,
			func() { w.servers.nodes[0].start(); w.servers.nodes[1].start(); w.whole() }, outage(partition + 10*time.Second), -1, measured},
	}
}

// strike lets a fault happen while users come and go, and holds what viewers were shown against it.
func (w *world) strike(n int, f fault) string {
	w.t.Helper()
	w.t.Logf("%s: %s", time.Now().Format(time.TimeOnly), f.name)
	began := time.Now()
	opened := make(map[string]bool)
	w.churn(3*n, f, opened)
	struck := time.Now()
	f.begin()
	time.Sleep(min(f.hold, 2*time.Second)) // the fault's own time, no race's
	w.churn(3*n+1, f, opened)
	time.Sleep(max(0, f.hold-2*time.Second))
	ended := time.Now()
	f.end()
	w.churn(3*n+2, f, opened)
	w.settle(params().Bounds().Close.Latest + f.late + patience)
	settled := time.Now()
	sights := w.audience.since(began)
	slowest := w.judge(f, sights, opened, began)
	longest, pairs, reason := unknown(sights, settled)
	told := none
	if pairs > 0 {
		told = fmt.Sprintf("%.1f s (%d, %s)", longest.Seconds(), pairs, reason)
	}
	silent, unanswered := w.pulses.longest(began, settled), w.answers.longest(began, settled)
	w.limit(f, struck, ended, silent, unanswered, told)
	return fmt.Sprintf("%-40s %4.0f s %12.1f s %9.1f s  %-33s %11.1f s %14.1f s", f.name, ended.Sub(struck).Seconds(),
		silent.Seconds(), unanswered.Seconds(), told, slowest.Seconds(), settled.Sub(ended).Seconds())
}

// limit holds what was measured of a fault against its limits.
func (w *world) limit(f fault, struck, ended time.Time, silent, unanswered time.Duration, unknown string) {
	w.t.Helper()
	if f.known && unknown != none {
		w.t.Errorf("%s: views turned unknown: %s", f.name, unknown)
	}
	if f.takes != "" && !w.owners.taken(f.takes, f.by.cmd.Process.Pid, struck, ended) {
		w.t.Errorf("%s: %s has taken over nothing", f.name, f.by.name)
	}
	if f.takes == keeper && silent > longestTakeover || f.takes == fanout && unanswered > longestTakeover {
		w.t.Errorf("%s: a keeper was silent for %s, viewers had no answer for %s; a takeover may last %s", f.name, silent, unanswered, longestTakeover)
	}
}

// none stands in the table where no view turned unknown.
const none = "–"

// Users from steady on, of each gateway, come and go in groups.
const (
	steady = 700
	group  = 10
)

// churn has a group leave every gateway, and the group before it come back if it is shown as gone.
func (w *world) churn(n int, f fault, opened map[string]bool) {
	w.t.Helper()
	groups := (perEdge - steady) / group
	place := func(g, n int) (from, to int) {
		from = g*perEdge + steady + n%groups*group
		return from, from + group
	}
	for g := range gateways {
		if g == f.dead {
			continue
		}
		from, to := place(g, n+groups-3) // closed one fault ago
		if w.at[from] < 0 {
			w.open(g, from, to)
			for u := from; u < to; u++ {
				opened[user(u)] = true
			}
		}
		if from, to = place(g, n); w.at[from] == g {
			w.close(from, to, f.late)
		}
	}
}

// judge finds false offlines and late ones, and returns how long the slowest leave took.
func (w *world) judge(f fault, sights []sight, opened map[string]bool, began time.Time) (slowest time.Duration) {
	w.t.Helper()
	first, online := make(map[string]time.Time), make(map[string]bool)
	var wrong []string
	for _, s := range sights {
		switch {
		case s.status == rollcall.StatusOnline:
			online[s.target] = true
		case s.status == rollcall.StatusOffline && first[s.target].IsZero():
			first[s.target] = s.at
		}
		if s.status != rollcall.StatusOffline {
			continue
		}
		n := number(s.target)
		switch {
		case w.at[n] >= 0 && (!opened[s.target] || online[s.target]):
			wrong = append(wrong, fmt.Sprintf("%s is at gateway %d and was shown offline, %s after the beginning", s.target, w.at[n]+1, s.at.Sub(began)))
		case w.at[n] < 0 && s.at.After(w.left[n].at) && s.at.Before(w.left[n].earliest):
			wrong = append(wrong, fmt.Sprintf("%s was shown offline %s after it had left", s.target, s.at.Sub(w.left[n].at)))
		}
	}
	for n, at := range w.at {
		if at >= 0 || w.left[n].at.Before(began) || w.left[n].crash {
			continue
		}
		shown := first[user(n)]
		slowest = max(slowest, shown.Sub(w.left[n].at))
		if shown.After(w.left[n].latest) {
			wrong = append(wrong, fmt.Sprintf("%s left, and was shown offline after %s, %s too late", user(n), shown.Sub(w.left[n].at), shown.Sub(w.left[n].latest)))
		}
	}
	if len(wrong) > 0 {
		w.t.Errorf("%s: %d users are shown wrongly: %s", f.name, len(wrong), strings.Join(wrong[:min(len(wrong), 5)], "; "))
	}
	return slowest
}

func number(target string) (n int) {
	fmt.Sscanf(strings.TrimPrefix(target, "u"), "%d", &n)
	return n
}

func (w *world) begin(p *process) {
	w.t.Helper()
	p.start()
	p.await("runs on", patience)
}

// crash kills a gateway. Most of its users connect to the next one at once; a hundred do not.
func (w *world) crash(g int) {
	w.t.Helper()
	w.gateways[g].kill()
	w.move(g, (g+1)%gateways, 100)
}

// comeBack starts a gateway again, which tells that those are gone who have not come back.
func (w *world) comeBack(g int) {
	w.t.Helper()
	now, b := time.Now(), params().Bounds().Close
	w.gateways[g].begin()
	for n := range users {
		if w.at[n] == g {
			w.depart(n, n+1, departure{at: now, earliest: now.Add(b.Earliest), latest: time.Now().Add(b.Latest + way)})
		}
	}
}

// lose kills a gateway for good. Its users must be shown offline when its lease has ended, whatever else happens.
func (w *world) lose(g int, late time.Duration) {
	w.t.Helper()
	now, b := time.Now(), params().Bounds().EdgeCrash
	w.gateways[g].kill()
	for n := range users {
		if w.at[n] == g {
			w.depart(n, n+1, departure{at: now, earliest: now.Add(b.Earliest), latest: time.Now().Add(b.Latest + late + way), crash: true})
		}
	}
}

// lost says when they were.
func (w *world) lost() string {
	w.t.Helper()
	w.ending = true
	w.settle(params().Bounds().EdgeCrash.Latest + 2*patience)
	first := make(map[string]time.Time)
	for _, s := range w.audience.since(time.Time{}) {
		if s.status == rollcall.StatusOffline && first[s.target].IsZero() {
			first[s.target] = s.at
		}
	}
	soonest, latest := time.Hour, time.Duration(0)
	for n := range users {
		if d := w.left[n]; d.crash {
			after := first[user(n)].Sub(d.at)
			soonest, latest = min(soonest, after), max(latest, after)
			if first[user(n)].Before(d.earliest) || first[user(n)].After(d.latest) {
				w.t.Errorf("%s was at the gateway that was lost, and shown offline after %s", user(n), after)
			}
		}
	}
	b := params().Bounds().EdgeCrash
	return fmt.Sprintf("\na gateway killed for good, beside the others: its users shown offline after %.1f to %.1f s (bounds %s to %s)\n",
		soonest.Seconds(), latest.Seconds(), b.Earliest, b.Latest)
}

// move connects the users of a gateway to another one, but for the first of them.
func (w *world) move(from, to, but int) {
	w.t.Helper()
	for n := 0; n < users; {
		if w.at[n] != from {
			n++
			continue
		}
		if but > 0 {
			n, but = n+1, but-1
			continue
		}
		end := n
		for end < users && w.at[end] == from {
			end++
		}
		w.open(to, n, end)
		n = end
	}
}

// restartAll restarts every process, one after the other, as an upgrade does.
func (w *world) restartAll() {
	w.t.Helper()
	for _, n := range w.servers.nodes {
		n.stop(patience)
		n.start()
		n.await("started", patience)
		w.whole()
	}
	for _, p := range slices.Concat(w.keepers, w.fanouts, w.ledgers) {
		p.stop(patience)
		w.begin(p)
	}
	for g, p := range w.gateways[:gateways] {
		w.move(g, (g+1)%gateways, 0)
		p.stop(patience)
		p.begin()
	}
}
