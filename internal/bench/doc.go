// Package bench measures a whole fabric on this machine beside raw NATS.
//
// # What it owns
//
// A nats-server on a temporary directory, which is removed at the end, and for each
// measure a fabric of its own on it: keeper, fanout and edges. Everything runs in
// this process and in real time, with file storage.
//
// # What it guarantees
//
//   - Every part has a connection of its own, over loopback TCP, because that is how
//     the parts of a real fabric meet; the baselines connect in the same way to the
//     same server. Within the process a connection would be a [net.Pipe], which
//     answers sooner but streams slower.
//   - A baseline is taken between the rounds of what it is compared with, so that
//     whatever else the machine does falls on both.
//   - Everything is counted at its destination, and a round in which something did
//     not arrive is an error, not a figure. Figures are medians of three rounds
//     after a warm-up; all rounds are in the report. An edge's crash has none: each
//     of its rounds has a fabric of its own.
//
// # What it does not say
//
// Server, fabric, load and viewers share the cores, so a figure is a lower bound of
// what the fabric does alone. Edges are told not to time connections out, except
// where renewals are counted, so that heartbeats do not disturb the other measures.
//
// # How to test it
//
// [Config] takes tiny sizes; what is reported is pure.
package bench
