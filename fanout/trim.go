package fanout

import (
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// View is what the keeper published of a user.
type View struct {
	State    rollcall.State
	Activity string
	Observed rollcall.Micros // when the keeper saw the change
	Seen     rollcall.Micros // last sign of life of a user who is offline
}

// Recent is how long ago a coarse viewer still calls "recently", inclusive.
const Recent = 24 * time.Hour

// Trim cuts a user's view down to what a viewer of the given granularity may
// know. visible is false where the viewer must not even know that the target
// exists. Target and Version are the caller's to fill in.
//
// Nothing finer than a minute passes. The boundary of [Recent] is as fine as now
// is: callers who publish the result give now cut to the minute.
func Trim(v View, g rollcall.Granularity, now rollcall.Micros) (view subjects.View, visible bool) {
	l := trim(v, g, now)
	return l.view("", 0), l.visible()
}

// A look is a trimmed view without target and version, small and comparable, since
// one is kept for every watched target of every viewer. The zero look is nothing.
type look struct {
	status         statusCode
	state          rollcall.State
	availability   rollcall.Availability
	activity, text string
	observed, seen subjects.Minute
}

// A statusCode is a [rollcall.Status] in one byte.
type statusCode uint8

const (
	codeNothing statusCode = iota
	codeOnline
	codeOffline
	codeRecently
	codeLongAgo
	codeUnknown
)

func trim(v View, g rollcall.Granularity, now rollcall.Micros) look {
	switch g {
	case rollcall.Exact:
		return trimExact(v)
	case rollcall.Coarse:
		return trimCoarse(v, now)
	case rollcall.Hidden:
		return look{status: codeUnknown}
	}
	return look{}
}

func trimExact(v View) look {
	l := look{status: codeOnline, state: v.State, activity: v.Activity, observed: subjects.MinuteOf(v.Observed)}
	if v.State == rollcall.Offline {
		l.status, l.activity, l.seen = codeOffline, "", subjects.MinuteOf(v.Seen)
	}
	return l
}

func trimCoarse(v View, now rollcall.Micros) look {
	switch {
	case v.State != rollcall.Offline:
		return look{status: codeOnline}
	case v.Seen != 0 && now.Sub(v.Seen) <= Recent:
		return look{status: codeRecently}
	}
	return look{status: codeLongAgo}
}

// differs reports whether a look says something else than another, which viewers were
// told. Who left and came back before anybody was told did nothing that they could
// see, though the keeper observed it at another minute.
func (l *look) differs(told *look) bool {
	return l.status != told.status || l.state != told.state || l.availability != told.availability || l.seen != told.seen ||
		l.activity != told.activity || l.text != told.text
}

func (l look) visible() bool { return l.status != codeNothing }

func (l look) statusName() rollcall.Status {
	switch l.status {
	case codeOnline:
		return rollcall.StatusOnline
	case codeOffline:
		return rollcall.StatusOffline
	case codeRecently:
		return rollcall.StatusRecently
	case codeLongAgo:
		return rollcall.StatusLongAgo
	case codeUnknown:
		return rollcall.StatusUnknown
	}
	return subjects.StatusWithdrawn
}

// stateName is empty unless the viewer may know what the online target does.
func (l look) stateName() string {
	if l.state == rollcall.Offline {
		return ""
	}
	return l.state.String()
}

// availabilityName is empty for a target that leaves the word to its devices.
func (l look) availabilityName() string {
	if l.availability == rollcall.Available {
		return ""
	}
	return l.availability.String()
}

// view is the look as viewers read it; a look that is nothing reads as withdrawn.
func (l look) view(target string, version uint64) subjects.View {
	if !l.visible() && target == "" {
		return subjects.View{}
	}
	return subjects.View{
		Target: target, Status: l.statusName(), State: l.stateName(), Activity: l.activity,
		Availability: l.availabilityName(), Text: l.text,
		Version: version, ObservedAtMinute: l.observed, LastSeenMinute: l.seen,
	}
}

// staleAt is the first minute at which a coarse viewer no longer reads "recently",
// zero if that does not lie ahead.
func staleAt(v View, now rollcall.Micros) rollcall.Micros {
	if v.State != rollcall.Offline || v.Seen == 0 || cutMinute(now).Sub(v.Seen) > Recent {
		return 0
	}
	return cutMinute(v.Seen.Add(Recent)).Add(time.Minute)
}

func cutMinute(m rollcall.Micros) rollcall.Micros {
	return m - m%rollcall.Micros(time.Minute.Microseconds())
}
