// Package wire holds the protobuf messages of wire.proto: frames of the log,
// beat columns, control messages and the records of the KV buckets. Regenerate
// with `task generate`. Decode through package subjects, which checks what it
// reads.
package wire
