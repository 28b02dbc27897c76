// Package session makes sessions of raw events. It is pure: no I/O, no clock, no
// goroutine; the caller says how far time has come.
//
// # What it owns
//
// The [Builder]: the events of every session that may still change, and the rules by
// which they become a [ledger.Session]. It hands out rows as they change
// ([Builder.Publish]), final rows, and what breaks a rule, for the quarantine.
//
// # The rules
//
//   - An open, a heartbeat, and nothing else, is a sign of life. Signs of life no more
//     than the cap apart are one stretch of connected time; after the last one the
//     grace counts.
//   - A close or logout ends the session as received: it cuts the grace. A timeout,
//     whenever it was noticed, neither adds nor cuts. Without a gap cap a close is a
//     sign of life as well, so that a history of nothing but opens and closes is
//     connected in between.
//   - What comes for a session after its end goes to quarantine ([ledger.RuleClosed]),
//     unless its epoch is higher: then the session goes on. The end of an epoch that
//     is no longer the newest ends nothing.
//   - The foreground lasts from the word that it began to the word that it ended. Who
//     first says that it left the foreground was there before, and who never says
//     anything knows no background. Input makes active time for the idle threshold;
//     an idle cuts it.
//   - A word of being in the foreground or active where the session was not connected,
//     or active in the background, breaks [ledger.RuleNesting]. The row counts what is
//     certain, and what was claimed goes to quarantine.
//
// # What it guarantees
//
//   - Rows and refusals are a function of the set of events that came within the
//     allowed lateness: order and repetition make no difference, nor does when
//     [Builder.Advance] or [Builder.Publish] were called. That holds for revisions too:
//     a revision counts the distinct events that a row is made of.
//   - An event below watermark − lateness is refused ([ledger.RuleLate]); whatever is
//     above it may come in any order.
//   - Refusals come when nothing can change them any more.
//   - [Builder.Snapshot], stored together with the positions in the streams, makes a
//     crash lose and double nothing: what is handed out again is equal to what was.
//
// # Memory
//
// Open sessions keep 24 bytes for each event within the lateness, whatever came
// before is folded into intervals. A session that has ended is packed into about a
// hundred bytes and forgotten when it could not go on any more without breaking
// the limit: see [Config.Remember].
//
// # How to test against it
//
// Feed it literals; see the scenarios in this package's tests.
package session
