// Package reconcile compares the figures of two definitions, such as live ones with
// those of a rebuild. It is pure.
//
// # What it owns
//
// [Compare], and what of it belongs in the quarantine ([Difference.Rejected],
// [ledger.RuleRebuilt]).
//
// # The rules
//
//   - Figures are compared by user and local day, sessions united, and by session, for
//     each measure, within bounds to the millisecond.
//   - What counts is the time that only one of the two has. Equal totals of different
//     times are a difference too.
//   - A session that only one of them has is one of no time in the other.
//
// # How to test against it
//
// Give it pairs of literals.
package reconcile
