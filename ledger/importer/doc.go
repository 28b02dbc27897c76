// Package importer reads histories from elsewhere: lines of time, user, device and
// event, as CSV or JSON, become sessions in a store.
//
// # What it owns
//
// The form of a line ([Parse]), which lines belong to one session, and the ids of
// sessions. What a session counts is up to package session.
//
// # The rules
//
//   - Events of a user's device belong together and are put in order of time, whatever
//     their order in the file. At one instant the sequence decides, then the line.
//   - An open begins a session, unless one is running: that one then goes on, with a
//     higher epoch, as after a reconnect. A history that begins amid a session begins it
//     with its first event.
//   - A session that was opened and closed without a heartbeat in between comes from a
//     source that has none, so it counts as connected throughout, under any gap cap; a
//     heartbeat after the close changes nothing.
//
// # What it guarantees
//
//   - Repeating an import changes nothing: a session's id is made of user, device and
//     start, its revision counts its events, and a refusal's id is made of its content. So
//     an import that was killed is repaired by running it again, and a longer file of the
//     same history corrects what a shorter one had. Daily totals that the store keeps
//     change with the sessions.
//   - A line that cannot be read goes to quarantine with its number and the reason, and
//     so does an event that breaks a rule.
//   - Memory holds a chunk of events and the longest session. What is more goes to
//     temporary files, which no other user can read and which have no name any more.
//   - Device ids are replaced by pseudonyms before anything is stored. A line that cannot
//     be read is kept as it is, since nobody knows what it says.
//
// # How to test against it
//
// Give [Run] a string and a function that takes batches.
package importer
