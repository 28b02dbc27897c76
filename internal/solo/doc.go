// Package solo owns all shards of a fabric in one process.
//
// It takes over without asking: whoever starts last is the owner, and the
// generation, kept by compare-and-set in a KV bucket, tells the older one apart.
// Keepers fence their writes with it, so a second process started by mistake or a
// paused one that wakes cannot mix its writes with the owner's; it learns of the
// loss at its next write and stops. Sharing shards with other processes is package shards'
// matter.
package solo
