// Package schema holds the JSON Schemas (draft 2020-12) of everything that a client sees
// or sends: [FS] has one file for each, and docs/asyncapi.yaml refers to them.
//
// # What it guarantees
//
//   - What the fabric sends validates, and so does every body that it accepts, but for the
//     leniency of its decoders: other spellings of field names, and null or an empty
//     list in place of a field that is left out.
//   - What clients receive is open: fields may be added within the contract's major
//     version, and clients must ignore those that they do not know. What clients send to
//     a policy is closed, because the fabric refuses there what it does not know.
//   - The schemas keep to what draft 07 says of the same words, except for the name
//     $defs, since tools for AsyncAPI read them so.
//
// # Limits
//
// A schema cannot count bytes, find half a surrogate pair that a parser has replaced
// already, or compare a time with now: such bodies validate and are refused all the
// same. The descriptions say so.
//
// # How to test against it
//
// The tests of this package hold the schemas against the types and decoders of package
// subjects, those of e2e against the messages of a whole fabric.
package schema
