package interval

// Measures are the three sets of a session: what the wire proves, what was on the
// screen, and what was used. A client that knows no background puts its connected
// time in Foreground too.
type Measures struct {
	Connected, Foreground, Active []Interval
}

// Check says whether active ≤ foreground ≤ connected, instant by instant and not
// only in length. The error is [ErrForeground] or [ErrActive], the name of the rule
// for the quarantine.
func (m Measures) Check() error {
	switch {
	case !Within(m.Foreground, m.Connected):
		return ErrForeground
	case !Within(m.Active, m.Foreground):
		return ErrActive
	}
	return nil
}

// Clip cuts foreground to connected and active to what is left of foreground. The
// sets of m stay as they are.
func (m Measures) Clip() Measures {
	m.Foreground = Intersect(nil, m.Foreground, m.Connected)
	m.Active = Intersect(nil, m.Active, m.Foreground)
	return m
}
