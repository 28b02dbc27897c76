// Package subjects is the contract between the parts of Rollcall: every subject,
// stream, bucket and key name, the encoding of ids into tokens, the shard of a
// user, and the messages, protobuf inside the fabric (package wire) and JSON
// towards viewers. It does no I/O.
//
// # What it guarantees
//
//   - [Token] is one-to-one and its result is always a single, literal subject
//     token and KV key part, whatever the id; [ParseToken] refuses anything that
//     Token does not produce. So an id cannot widen a permission or a filter.
//   - [Names.Shard] is NATS's own partition function.
//   - Decoders never panic and never return half a message: what they return
//     holds valid ids, known versions and sizes within the limits. Each has a
//     fuzz test.
//   - Error codes towards viewers ([Code]) are stable.
//
// Only this package contains literals of subjects, streams and buckets.
package subjects
