// Package explain says why a user is shown as it is: from the keeper's records, the policy, the
// answer of a fanout, and the last frames of the log that name the user. It reads as an operator
// and changes nothing.
//
// The records are of moments that lie close together, not of one; who looks while a user changes
// may see the one before and the other after. The log is kept by shard, not by user, so that it is
// searched backwards for a bounded time; the report says how far.
package explain
