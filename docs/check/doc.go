// Package check reads the contract documents for tests: the JSON Schemas of package
// schema, docs/asyncapi.yaml and the examples in docs/contract.md. Nothing else should
// import it.
//
// # What it guarantees
//
//   - [Schemas] compiles every schema strictly: formats are asserted.
//   - [Read] refuses an AsyncAPI document that does not hold together: references that
//     lead nowhere, channels without messages, operations without a channel, parameters
//     that their address does not have. The official parser, which check.js runs, knows
//     the rest of the specification.
//   - [Document.Match] finds the one channel of a subject, and [Message.Check] holds what
//     was really sent against a message.
package check
