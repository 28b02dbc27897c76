package interval

// A Part is what falls into one period of a calendar. Date is the first day of the
// period; its [Period.Label] is the key of a report.
type Part struct {
	Date Date
	Interval
}

// Split appends to dst the parts of an interval by day, week or month, in order. They
// touch, none is empty, and their lengths add up to that of the interval.
func (z *Zone) Split(dst []Part, i Interval, p Period) []Part {
	if i.Empty() {
		return dst
	}
	for d := p.First(z.Date(i.From)); i.From < i.To; d = p.Next(d) {
		end := min(i.To, z.end(p, d))
		// A skipped day is empty.
		if end > i.From {
			dst = append(dst, Part{Date: d, Interval: Interval{From: i.From, To: end}})
			i.From = end
		}
	}
	return dst
}

// end is where a period ends; the last of the calendar takes all that comes after it.
func (z *Zone) end(p Period, d Date) int64 {
	if next := p.Next(d); next <= lastDate {
		return z.Start(next)
	}
	return maxInt64
}

// A PeriodTotal is how much of a set falls into one period.
type PeriodTotal struct {
	Date  Date // the first day of the period
	Total int64
}

// Totals appends to dst what a set has in every period, in order, without those in
// which it has nothing.
func (z *Zone) Totals(dst []PeriodTotal, set []Interval, p Period) []PeriodTotal {
	end := int64(minInt64) // of the period that the last total is for
	for _, i := range set {
		for !i.Empty() {
			if i.From >= end {
				d := p.First(z.Date(i.From))
				dst, end = append(dst, PeriodTotal{Date: d}), z.end(p, d)
			}
			upto := min(i.To, end)
			dst[len(dst)-1].Total += upto - i.From
			i.From = upto
		}
	}
	return dst
}
