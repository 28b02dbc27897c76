package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// why says the report in sentences, from the devices to the viewer.
func (i *inquiry) why(record *wire.UserRecord) []string {
	r := &i.report
	if !r.Known {
		return append([]string{"no keeper knows this user, and no state was ever published: it never came, or was forgotten"}, i.whyPolicy()...)
	}
	return append(append(i.whyShown(record), i.whyDevices()...), i.whyPolicy()...)
}

func (i *inquiry) whyShown(record *wire.UserRecord) []string {
	r := &i.report
	connected, decides := deciding(r.Devices)
	switch {
	case r.Shown == nil:
		return []string{"nothing was published of this user yet"}
	case record == nil:
		return []string{fmt.Sprintf("offline since %s, so long ago that the keeper has forgotten its devices", clock(r.Shown.Observed))}
	case r.Departure != nil:
		return []string{fmt.Sprintf("still shown %s although no device is connected: the last one left (%s) at %s, and offline is published at %s (%s) unless one comes back",
			r.Shown.State, r.Departure.Way, clock(r.Departure.Since), clock(r.Departure.Offline), i.from(r.Departure.Offline))}
	case connected == 0 && r.Shown.State == rollcall.Offline.String():
		return []string{fmt.Sprintf("offline since %s: no device is connected; the last sign of life was at %s", clock(r.Shown.Observed), clock(r.Seen))}
	case connected == 0:
		return []string{fmt.Sprintf("shown %s although no device is connected, and no offline is due: the keeper is about to write that", r.Shown.State)}
	case connected == 1:
		return []string{fmt.Sprintf("%s since %s: %q is connected", r.Shown.State, clock(r.Shown.Observed), decides)}
	}
	return []string{fmt.Sprintf("%s since %s: of %d connected devices, %q is the most active", r.Shown.State, clock(r.Shown.Observed), connected, decides)}
}

// deciding counts the devices that are connected, and names the one that decides: the most
// present one, of those the newest.
func deciding(devices []Device) (n int, decides string) {
	var best *Connection
	for _, d := range devices {
		c := d.Current
		if c == nil {
			continue
		}
		n++
		if best == nil || rank(c.State) > rank(best.State) || c.State == best.State && c.Epoch.After(best.Epoch) {
			best, decides = c, d.Device
		}
	}
	return n, decides
}

func rank(state string) rollcall.State {
	s, _ := rollcall.ParseState(state)
	return s
}

func (i *inquiry) whyDevices() (why []string) {
	for _, d := range i.report.Devices {
		if c := d.Current; c != nil {
			why = append(why, i.whyLease(d.Device, *c)...)
		}
		for _, c := range d.Stale {
			why = append(why, fmt.Sprintf("an older connection of %q on edge %q does not count: a newer one of the device has taken its place, and the edge has not closed it yet", d.Device, c.Edge))
		}
	}
	return why
}

// whyLease tells of a lease that does not hold a connection as it should.
func (i *inquiry) whyLease(device string, c Connection) []string {
	switch l := c.Lease; {
	case l == nil:
		return []string{fmt.Sprintf("%q is on edge %q, which has no lease: it was given up or ran out, and its connections are about to end", device, c.Edge)}
	case l.Restarted:
		return []string{fmt.Sprintf("%q is on edge %q, which was started again since: its connections of before are about to end", device, c.Edge)}
	case !i.report.AsOf.Before(l.Ends):
		return []string{fmt.Sprintf("%q is on edge %q, whose lease ran out at %s (%s): the next tick of the keeper ends it, if a keeper runs", device, c.Edge, clock(l.Ends), i.from(l.Ends))}
	case i.report.AsOf.Sub(l.Renewed) > i.fabric.Params.LongestRenewal():
		return []string{fmt.Sprintf("%q is on edge %q, which should have renewed its lease by now: nothing was heard of it for %s, and it runs out at %s (%s)",
			device, c.Edge, short(i.report.AsOf.Sub(l.Renewed)), clock(l.Ends), i.from(l.Ends))}
	}
	return nil
}

func (i *inquiry) whyPolicy() (why []string) {
	r := &i.report
	if p := r.Policy; p != nil {
		if p.Damage != "" {
			why = append(why, "the policy cannot be read, so nobody else sees the user: "+p.Damage)
		}
		if !p.Covered.IsZero() {
			why = append(why, fmt.Sprintf("the user appears offline to everyone else since %s, by its own wish", clock(p.Covered)))
		}
	}
	if v := r.Viewer; v != nil {
		why = append(why, v.why(i.User))
	}
	return why
}

func (v *Viewer) why(user string) string {
	may := map[fanout.Rule]string{
		fanout.RuleSelf:     "looks at itself and sees everything",
		fanout.RuleBlocked:  fmt.Sprintf("is blocked by %s, and is answered as if there were no such user", user),
		fanout.RuleOverride: "may know " + v.Granularity + ", by an override of the policy",
		fanout.RuleContact:  "is a contact and may know " + v.Granularity,
		fanout.RuleMember:   "shares a group and may know " + v.Granularity,
		fanout.RuleEveryone: "is neither a contact nor in a common group and may know " + v.Granularity,
	}[v.Rule]
	if v.Granularity == "default" {
		may = strings.Replace(may, "may know default", "may know what the fabric's default is for that", 1)
	}
	told := "it is told nothing"
	switch {
	case v.Trouble != "":
		told = "what it is told is not known: " + v.Trouble
	case v.Told != nil:
		told = "it is told " + string(v.Told.Status)
		if v.Told.State != "" {
			told += ", " + v.Told.State
		}
	}
	return fmt.Sprintf("viewer %s %s; %s", v.Viewer, may, told)
}

// clock is a time as people read it.
func clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// from says how long ago a time was, or in how long it will be.
func (i *inquiry) from(t time.Time) string { return from(i.report.AsOf, t) }

func from(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + short(d)
	}
	return short(now.Sub(t)) + " ago"
}

func short(d time.Duration) string { return d.Round(time.Second).String() }
