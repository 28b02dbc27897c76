// Package archive keeps the raw events of a fabric for good, as Parquet files that any
// SQL tool reads.
//
// # What it owns
//
// A directory: events by the UTC date and hour in which they happened, as
// events/date=2026-12-01/hour=09/*.parquet, each file sorted by user, session, epoch
// and time; what could not be read, as rejected/date=…/hour=…/*.parquet, by when it was
// stored and with its bytes; the state of the readers of the streams; and the manifest,
// which alone says what counts. [Run] fills it from the streams, [Archive] reads it.
//
// Besides the event, a row says when the store took its message (stored_at), and which
// message that was (shard, stream and position). Devices are pseudonyms, by the key that
// imports use too.
//
// # What it guarantees
//
//   - Everything that the streams tell is in the archive once, whatever was killed when.
//     Files are written aside, synced and renamed; then a new manifest replaces the old
//     one, and says at once which files there are and how far the streams were read. What
//     the manifest does not list is not read, and removed at the next start.
//   - Nothing is refused for being late. Under which lateness an event counts is the
//     reader's choice ([Event.Under]), as it is for those who read the streams.
//   - Every file is of one hour of events and one hour of store times, so that
//     [Archive.Read] yields events by the hour in which they were stored, each file once.
//     An event that came days late is in the partition of its own hour, and is still read
//     when it was stored. See [Watermark].
//   - Nothing is purged from a stream before a manifest says that it is here, and nothing
//     before the fabric's retention is over.
//   - Small files of hours that are over are merged. A user who is forgotten is cut out of
//     every file ([Archive.Forget]), and what comes later of that user is left out.
//
// # Memory
//
// Connections that are open or have ended within [Config.Horizon], as in package raw, and
// the events between two spills ([Config.Buffer]), which are written but do not count yet.
// Readers hold a page of every column, of every file that is merged.
//
// # How to test against it
//
// A [Writer] takes messages by hand; see this package's tests.
package archive
