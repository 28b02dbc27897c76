// Package interval is the arithmetic of online time: intervals, how heartbeats
// become intervals, and how intervals fall into local days. It is pure: no I/O, no
// clock, no goroutine. Where another part of the ledger, a database or a report
// disagrees with it, this package is right.
//
// # What it owns
//
//   - [Interval], half-open, in milliseconds since the Unix epoch, and sets of them:
//     [Union], [Total], [Sum], [Clip], [Intersect], [Subtract]; [Joiner] for input
//     sorted by start, [Merge] for the sorted sessions of a user, [Groups] for rows
//     of many users.
//   - [Gaps], the rule that makes intervals of heartbeats, at once with [Gaps.Online]
//     or beat by beat with a [Builder].
//   - [Activity] and [Foreground], which make intervals of input and of switches,
//     and [Measures], which keeps active ≤ foreground ≤ connected.
//   - [Zone], the local days, ISO weeks and months of a named IANA time zone.
//
// # What it guarantees
//
//   - A set is sorted, without empty intervals, and its intervals neither overlap nor
//     touch. Everything that returns a set returns one of that form, and the same one
//     for every order of the input and every duplicate in it.
//   - Time that nobody proved is not counted: a gap above the cap splits, the tail
//     after the last heartbeat counts at most the grace, and when somebody noticed
//     that the beats had stopped is not even a parameter.
//   - A local day starts at the smallest instant whose local date is that day, so days
//     have no holes, also where midnight does not exist, happens twice, or a whole
//     day was skipped. Parts of a split add up to what was split, to the millisecond.
//   - Functions that say "in place" reuse the memory of their argument; those with a
//     dst append to it. Neither allocates where the capacity suffices.
//
// # Limits
//
//   - Instants must lie within [Earliest] and [Latest], which [Interval.Check] tells;
//     beyond, differences may overflow. [Zone] counts what lies before the first or
//     after the last day of its calendar to that day.
//   - A [Builder] keeps runs of beats, not beats. A close that arrives after later
//     beats can therefore cut a run only at the close itself; [Builder.Close] tells
//     when, and [Gaps.OnlineUntil] over the raw beats gives the exact end.
//   - The time zone database of the machine comes first, as always in Go; this package
//     embeds a copy (time/tzdata) for machines and containers that have none. Two
//     machines with different releases of it can disagree about recent days.
//   - Nothing here is safe for concurrent use, except [Zone] and [Zones].
//
// # How it is tested
//
// Against vectors that come from outside the project; against counters that walk
// millisecond by millisecond and minute by minute, over random histories in more
// than thirty zones; against PostgreSQL (build tag postgres, see .ci/postgres) and
// DuckDB (a module of its own in duckdb, since it needs cgo).
package interval
