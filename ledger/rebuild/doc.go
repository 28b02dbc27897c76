// Package rebuild computes a period again from the raw events, under the same
// definition or another one, beside the figures that are there.
//
// # What it owns
//
// [Run], which sources it can read ([Stream], [Archive]), and under which version the
// figures stand. Package reconcile compares them.
//
// # The period
//
// A session comes out whole, as the live ledger has it, or not at all: all that have an
// instant in the period are stored, also the part of them that lies outside. So that
// their beginning and end are known, raw events are read from one longest session
// before the period (the definition's limit and lateness) to one after it, as far as
// the source reaches. Refused events count if they lie in the period. Daily totals are
// written for the local days that lie in it as a whole.
//
// # Versions
//
// A definition whose version the store does not know keeps its name. If figures stand
// under it already, those of the rebuild get a name of their own: the version, and
// "+rebuilt-" with the time at which it began. Config.Into chooses another name, also one
// that is there, if its rules are the same: then sessions are added and corrected, never
// taken away. A rebuild never becomes the definition that is asked for by default.
//
// # What it guarantees
//
//   - The same raw events make the same rows as a live ledger, revisions included,
//     whatever the source.
//   - Rows, quarantine and the place in the source are stored together. A rebuild that
//     was killed goes on where it was, if it is run with the same period, rules and
//     source; what is stored twice is stored once.
//   - Until it ends, its version is marked as unfinished: see [store.Rebuild].
//   - Users who were forgotten stay so: the store drops them, and with them the places of
//     rebuilds, which know names. One that is under way stores its place again.
//
// # Memory
//
// The sessions that are open, those that have ended within the definition's limit at
// about a hundred bytes, and one batch of rows. The length of the history makes no difference.
//
// # How it fails
//
// The first error of the store or of the source ends it; what is stored stays. Two that
// do the same at once end one of them with [store.ErrOvertaken]. A period that begins
// before what the source still holds is refused with [ErrGone].
//
// # How to test against it
//
// A [Source] of literals and a SQLite file.
package rebuild
