// Package raw reads the raw history of a shard: the frames that edges append to its
// log, and their heartbeats on the stream beside it.
//
// # What it owns
//
// [Decoder] turns messages of both streams into events of sessions: which connection
// is which session, which session an edge has lost, and what came too late. It is
// pure. [Follow] reads the streams and hands them over in the order of their store
// times.
//
// # What it guarantees
//
//   - The same messages yield the same events, whichever stream is read first:
//     heartbeats whose connection is not known yet wait for its OPEN.
//   - How late an event is counts from the store time of its message, not from when
//     it is read. So live and rebuilt refuse the same.
//   - What an edge no longer holds, because it crashed or says so in a roster, ends
//     with [ledger.KindTimeout], which neither adds time nor takes any.
//   - A message that cannot be read goes to quarantine with its stream and sequence.
//
// A session without an id of the application is its connection: edge, incarnation and
// number. See [SessionID].
//
// # Memory
//
// The connections that are open, and those that have ended within the lateness.
//
// # How to test against it
//
// Encode frames with package subjects and decode them; see this package's tests.
package raw
