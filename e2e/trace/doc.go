// Package trace has no code: its test replays real connection histories through the whole
// fabric in virtual time. It is apart from package e2e's because it takes as long as many of those.
package trace
