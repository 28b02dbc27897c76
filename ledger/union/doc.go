// Package union counts the online time of users by local day: of all sessions of a
// user together, for each measure. It is pure.
//
// # What it owns
//
// A [Board] holds the rows of sessions, takes corrections of them, and says which daily
// totals have changed. [Check] holds the days of one session against the quality rules.
//
// # What it guarantees
//
//   - Two devices at once count once, and a day never has more than its length.
//   - A total depends on the newest revision of every row, not on the order in which
//     rows came.
//   - A row that breaks a rule does not count, and goes to quarantine.
//
// # Memory
//
// The rows added since the instant given to [Board.Forget], without what was before it.
//
// # How to test against it
//
// Add literals and collect what [Board.Publish] says.
package union
