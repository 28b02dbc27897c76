// Package store keeps what the ledger computed: sessions, their intervals, daily totals,
// quarantine, audit, definitions, rules of access, and how far each source has been read.
//
// # What it owns
//
// The tables, their migrations, and the only statements that touch them. [Open] gives
// SQLite for a path and PostgreSQL for a URL: one implementation, two dialects, the same
// tables under the same names, so that people with a SQL tool find them.
//
// # What it guarantees
//
//   - A [Batch] is one transaction, its checkpoint included. A process that is killed
//     has stored all of a batch or nothing, and goes on from the checkpoint.
//   - Checkpoints of a source follow one another. Of two readers that were started by
//     mistake one stores each, and the other is told ([ErrOvertaken]).
//   - A session is one row per definition version and [ledger.SessionKey]. Of several revisions
//     the highest stays, whatever the order and however often they come; its intervals change
//     with it.
//   - A session or event that breaks a rule is one row of the quarantine, however often
//     it is refused; the newest words stay, and it is as old as they are.
//   - Figures of several definitions stand side by side; a version that was once used means
//     the same rules for ever ([ErrDefinition]). A version that only rebuilds have written is
//     never the one used last, unfinished ones are told apart ([Rebuild]), and it can be
//     dropped, whole.
//   - Daily totals of a zone and measure are kept once they were put: with [Batch.Refresh]
//     every batch, and every release from quarantine, corrects them in its transaction.
//   - The views analyst_daily and lead_daily show what the rules of access allow: days of
//     enough users, and the days of the connected account's team. PostgreSQL enforces it
//     by GRANT.
//   - A user that was forgotten is in no table, and no later batch brings the user back.
//     Who was forgotten is remembered as a keyed hash: it answers "was it this one?", and
//     whoever has both the database and a list of names can ask that too.
//   - Questions stream: no method loads more than the rows of one user.
//
// # How it fails
//
// A migration runs in one transaction. A database that is newer than the program is
// refused with [ErrNewer], and nothing is written. SQLite commits to its write-ahead log
// without waiting for the disk: a crash of the machine, not of the process, can lose the
// last batches, checkpoints included, and they are read again.
//
// # How to test against it
//
// SQLite in a directory of the test is fast and real. Other implementations run the
// conformance suite of this package; it runs on PostgreSQL with the build tag postgres
// and its URL in ROLLCALL_POSTGRES, which .ci/postgres prints.
package store
