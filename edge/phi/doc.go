// Package phi finds out from the intervals between a connection's heartbeats how long
// it may be silent: the φ-accrual failure detector (Hayashibara, Défago, Yared and
// Katayama, SRDS 2004), for hundreds of thousands of connections at once.
//
// # What it does
//
// φ(t) = −log10(1 − F(t)), where F is the normal distribution with the mean and the
// deviation of the connection's own intervals and t how long it has been silent: at
// φ = 3 a connection that goes on as before would speak again in one case of a thousand.
// [Detector.Deadline] is the silence at which φ reaches the threshold. F being
// normal, that is mean + pause + deviations × a constant, so that nothing needs to be
// computed as time passes: an edge books one look at that instant.
//
// # What it guarantees
//
//   - Never later than the fixed timeout, whatever the history.
//   - Never before the heartbeat that was promised: who is not suspect is not dead.
//   - Without enough history the fixed timeout holds.
//   - φ grows with silence, the deadline with the threshold.
//
// # Where it differs from the paper
//
// Instead of a window of intervals a [History] keeps a mean and a variance that forget
// exponentially: twelve bytes for a connection instead of hundreds, and what lies back
// longer counts for less instead of falling out at once. Like Akka's detector it has an
// acceptable pause and a smallest deviation, since intervals are not normal where
// packets are lost: by default as many heartbeats may be missing as the fixed timeout
// lets be missing, and what is saved is the margin that the timeout leaves for networks
// that are worse than this connection's.
//
// # How to test against it
//
// It is pure. Package trial replays intervals and counts false and true detections.
package phi
