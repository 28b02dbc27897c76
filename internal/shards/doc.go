// Package shards owns the shards of a fabric for one part of it: all of them alone, as package
// solo does, or a share of them beside other processes, as members of a group of package cohort.
//
// # What it owns
//
// The records of generations in the bucket of the group, which both ways of owning write, and the
// membership. What is fenced by a generation, and how, is the part's matter.
//
// # What it guarantees
//
//   - The generation of a grant is above that of every grant before, of either way.
//   - A member writes the record of a shard only while the group says that it is its owner. One
//     that was paused on the way finds the record changed, and is refused.
//   - Of those who own alone and those who share, whoever has begun last wins: the others end
//     with [rollcall.ErrNotOwner], which says who it was.
//
// # How it fails
//
// While the store is away nothing is granted and nobody is given up. A process that ends without
// [Owner.Drain] looks crashed: its shards move when the group misses it.
package shards
