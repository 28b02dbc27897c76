// Package definition reads and writes the versioned files that say how events become
// online time.
//
// # What it owns
//
// The YAML form of a [ledger.Definition], the definition that ships with Rollcall
// ([Default]), and the name that rows bear: version and [Hash].
//
// # What it guarantees
//
//   - A file is refused, with the line, if it has a field nobody knows or has one twice;
//     a typing error must not become a default.
//   - What is missing has the default's value. What was read is checked: a definition that
//     [Parse] returns makes sense.
//   - [Canonical] is the same bytes for the same meaning, whatever the layout, comments
//     or order of the file, so equal hashes mean equal figures.
//
// # How it fails
//
// [ErrInvalid] with the reason, and the line where there is one. It does no I/O.
package definition
