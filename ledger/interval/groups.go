package interval

// A Keyed interval belongs to whatever its key numbers: a user, a device.
type Keyed struct {
	Key uint32
	Interval
}

// Groups makes the union per key of rows in any order. It keeps its buffers from
// one call to the next: 16 bytes a row and 4 bytes a key. The zero Groups is ready.
type Groups struct {
	byKey []Interval
	ends  []uint32
}

// Union calls each once for every key that occurs, in ascending order, with the
// union of its rows, which is each's only until it returns. Keys should be
// numbered without large holes; rows are not changed.
func (g *Groups) Union(rows []Keyed, each func(key uint32, union []Interval)) {
	g.scatter(rows)
	start := uint32(0)
	for key, end := range g.ends {
		if start < end {
			each(uint32(key), Union(g.byKey[start:end:end]))
		}
		start = end
	}
}

// scatter is a counting sort by key: two walks over the rows instead of a sort of
// all of them, after which every key's share is small enough to sort cheaply.
func (g *Groups) scatter(rows []Keyed) {
	g.count(rows)
	if cap(g.byKey) < len(rows) {
		g.byKey = make([]Interval, len(rows))
	}
	g.byKey = g.byKey[:len(rows)]
	for _, r := range rows {
		g.byKey[g.ends[r.Key]] = r.Interval
		g.ends[r.Key]++
	}
}

// count leaves in ends where the share of each key starts; filling the shares moves
// those to where they end.
func (g *Groups) count(rows []Keyed) {
	keys := 0
	for _, r := range rows {
		keys = max(keys, int(r.Key)+1)
	}
	if cap(g.ends) < keys {
		g.ends = make([]uint32, keys)
	}
	g.ends = g.ends[:keys]
	clear(g.ends)
	for _, r := range rows {
		g.ends[r.Key]++
	}
	at := uint32(0)
	for key, n := range g.ends {
		g.ends[key] = at
		at += n
	}
}
