// Package feed follows a JetStream stream in order, without loss, across
// reconnects and server restarts.
//
// # What it guarantees
//
// [Reader.Run] hands over every message from the start sequence on (or the last
// one per subject, then everything that follows), each once, in stream order, in
// batches that grow while the handler is busy. It rebuilds its consumer whenever
// the connection was away, a heartbeat is missed, the consumer is gone or a
// message was skipped. If the store comes back without messages that were already
// handed over, Run ends with a [RollbackError], because no reader can hide that.
//
// # How it fails
//
// While the store is away Run waits and tries again; it never gives up by itself.
// At most [Window] messages wait for a slow handler; the rest stays in the store.
// A rollback cannot be noticed where the message last read has been replaced or
// trimmed meanwhile and the stream has grown past it again.
//
// # How to test against it
//
// Package lab: cut or freeze the link, stop the server, restore a snapshot.
package feed
