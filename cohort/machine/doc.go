// Package machine holds the rules of a worker group: who is a member, in which state, and who
// owns which partition. It does no I/O and knows no clock but the store's.
//
// # What it owns
//
//   - [Assign], the sticky assignment: every member's share within one of what its weight
//     says, by the fewest moves.
//   - [Machine], a group as a function of the records that were stored, in their order. Its
//     [Machine.Decide] says what the coordinator must write next.
//
// # What it guarantees
//
//   - Time is the highest store time applied. A deadline counts as passed when a record is
//     applied that was stored after it, so that whatever was stored before counts before,
//     and a coordinator that sleeps declares nobody dead.
//   - Everything that must survive a coordinator is in the records. A machine that is fed with
//     the last record of each key decides like the one before it; at worst it starts a wait again.
//   - A partition changes its owner only when the old one has released it, is gone, speaks over
//     another connection now, or has not released it in time. The generation grows each time,
//     so that what the old one commits later can be refused.
//
// # How to test against it
//
// Feed it; see the property tests. The runner around it is package cohort.
package machine
