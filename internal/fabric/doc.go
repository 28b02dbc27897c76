// Package fabric makes and finds the streams and buckets of a fabric. The number
// of shards and the timing are written into the metadata of the first log stream,
// so that every part that connects uses the same.
//
// [Ensure] is idempotent, and what its caller does not ask for stays as it is in a
// fabric that exists. It refuses to change the number of shards of a fabric
// that exists, because users would change their shard.
//
// Where a fabric is archived, its streams let nothing expire: what is archived and older
// than the retention is purged by package archive.
//
// [TakeOver] fences a bucket: after it, no write of an earlier owner is stored.
package fabric
