// Package tracing carries traces from a frame to what viewers are told of it, in the headers of
// NATS messages, as W3C Trace Context.
//
// A trace begins where an edge says that somebody came, left or changed: "edge frame". The
// keeper goes on with "keeper apply" and, when what is shown changes, perhaps a debounce later,
// with "keeper write"; the fanout with "fanout apply" and a "fanout event" for each of the first viewers
// that are told. Only frames begin traces: what a tick decides alone, such as that a lease has run out, is
// in none.
//
// Headers are put on frames and on views, which edges, keepers, fanouts and ledgers read. What viewers
// receive has none: who is told at the same instant of two targets could otherwise find out which of
// them moved. Spans name shards and edges, never users, devices or viewers.
//
// Where no tracer is configured, or a trace is not sampled, messages are what they would be without this
// package, byte for byte.
package tracing
