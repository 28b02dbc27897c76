// Package ledger is the vocabulary of online time: events, sessions, measures, and the
// definition by which the ones become the others. It does no I/O.
//
// # The way of the data
//
// Raw events (package edge writes them on the LOG and BEATS streams, an import reads
// them from files) become sessions ([Session]) under a [Definition]; the sessions of a
// user become a union for each [Measure]; both are split by local day. Every figure can
// be computed again from the raw events, under the same definition or another one.
//
// Packages below: interval is the arithmetic, and the truth; the others read, build,
// store and report.
package ledger
