// Package cohort keeps worker groups: who is alive, and who owns which partition. Members of a
// group share a fixed number of partitions out among themselves, and commit how far they have
// come in each.
//
//	m, err := cohort.Join(ctx, nc, cohort.Config{Group: "orders", ID: "worker-1", Partitions: 12})
//	for a := range m.Assignments() {
//		// work on exactly a.Partitions; finish a.Asked, commit, and release them
//	}
//
// or, with one function for each partition, [Member.Own].
//
// # What it owns
//
// The records of a group in a KV bucket; docs/cohort-protocol.md describes them for other
// languages. The rules are package machine's. Every member can be the coordinator, which is
// elected by a lease among these records; nothing but members is needed to run a group.
//
// # What it guarantees
//
//   - A partition's record is written by its owner only, and every write expects the revision
//     of the one before. A new owner writes its higher generation there before it works. From
//     then on nothing of the old owner is stored, however long it was paused: [Member.Commit]
//     fails with [rollcall.ErrNotOwner].
//   - A member that is asked for a partition keeps it until it has called [Member.Release], but
//     not longer than [Timing.Release]. One that says goodbye finds its partitions again within
//     [Timing.Hold]. One that falls silent loses them after [Timing.Timeout].
//   - Loads differ by at most one, by weight, and no assignment moves more than it must.
//   - Whatever a coordinator was about to do, the next one does.
//
// What is done twice: work since the last commit, when a partition changes its owner without
// being released. Who is cut off may go on working in vain until it learns of it; only what it
// commits is fenced. So effects outside should carry the generation, or not mind being repeated.
//
// # How it fails
//
// While the store is away nobody is declared dead, nothing moves, and commits fail with the
// store's error. A member whose record was ended meanwhile (unregistered) loses its partitions,
// registers again after a short random pause, and goes on. [Member.Done] is closed when it is over:
// the context has ended, the connection was closed for good, or another process has
// joined under the same id ([ErrReplaced]).
//
// # How to test against it
//
// Package machine needs neither NATS nor time. Whole groups run in virtual time on a real server; see
// the tests of this package.
package cohort
