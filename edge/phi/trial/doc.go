// Package trial judges detectors on the intervals of connections that were alive: how often
// each would have declared one dead, and how soon it would have found a real death. It is
// what the table in docs/evidence/phi.txt is made with.
package trial
