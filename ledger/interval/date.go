package interval

import (
	"fmt"
	"time"
)

// A Date is a day of the calendar, without a zone: days since 1970-01-01.
type Date int32

const (
	firstDate Date = -719162 // 0001-01-01
	lastDate  Date = 2932896 // 9999-12-31

	dayLength int64 = 24 * 60 * 60 * 1000 // of a day without a change of the clock
)

// DateOf is a day of the Gregorian calendar. Months and days beyond their range
// carry over, as in [time.Date].
func DateOf(year int, month time.Month, day int) Date {
	return Date(floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 24*60*60))
}

// ParseDate reads a day such as 2026-07-29.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("interval: date: %w", err)
	}
	return DateOf(t.Date()), nil
}

// Civil is the day as year, month and day of the month.
func (d Date) Civil() (year int, month time.Month, day int) { return d.utc().Date() }

// Weekday is the day of the week.
func (d Date) Weekday() time.Weekday { return d.utc().Weekday() }

// String writes the day as in 2026-07-29.
func (d Date) String() string { return d.utc().Format(time.DateOnly) }

func (d Date) utc() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// A Period is what reports count by.
type Period uint8

const (
	Day   Period = iota // local days
	Week                // weeks as in ISO 8601, from Monday
	Month               // months of the calendar
)

// First is the first day of the period that d lies in.
func (p Period) First(d Date) Date {
	switch p {
	case Week:
		const monday = Date(4) // 1970-01-05
		return d - Date(floorMod(int64(d-monday), 7))
	case Month:
		_, _, day := d.Civil()
		return d - Date(day-1)
	}
	return d
}

// Next is the first day of the period after the one that d lies in.
func (p Period) Next(d Date) Date {
	switch p {
	case Week:
		return p.First(d) + 7
	case Month:
		year, month, _ := d.Civil()
		return DateOf(year, month+1, 1)
	}
	return d + 1
}

// Label names the period that d lies in: 2026-07-29, 2026-W31 or 2026-07. The year of
// a week is the one that its Thursday lies in, as ISO 8601 says.
func (p Period) Label(d Date) string {
	switch p {
	case Week:
		year, week := d.utc().ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	case Month:
		return d.utc().Format("2006-01")
	}
	return d.String()
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
