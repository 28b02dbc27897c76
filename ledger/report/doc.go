// Package report answers how long users were online: by user, device, client and local
// day, week or month, as the union of a user's sessions or as their sum.
//
// # What it owns
//
// The [Query] and what it means, the forms in which rows are written, and the export of
// intervals. The arithmetic is that of package interval.
//
// # What it guarantees
//
//   - Only what lies in [from, to) counts, to the millisecond, and the parts of a split
//     add up to what was split.
//   - The union counts a user's instant once within a row's group, however many devices
//     were online: two devices are two rows of --by device, and one of --by user. Groups
//     without the user add their users up.
//   - The sum counts every session for itself.
//   - With a minimum of users no figure, and nothing computed from figures, is of fewer;
//     [Run] says how.
//   - Rows are sorted by their columns in the order asked for, byte by byte.
//
// # Memory
//
// The intervals of one user at a time, and the rows of the answer; with a minimum, those
// of every day and of every set of clients that some user had on it. Exports hold no rows.
//
// # How to test against it
//
// Sources are a narrow interface: a slice of rows will do, all of a user together.
package report
