package subjects

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys of the leases and views buckets.
const (
	KeyOwner      = "owner"      // who may write; see wire.OwnerRecord
	KeyCheckpoint = "checkpoint" // where a restarted keeper reads on
)

// Kinds of the keys that name an id; see [ParseKey].
const (
	KindEdge = "edge"
	KindUser = "user"
	KindView = "view"
	// KindPolicy and KindGroups lie beside the views, in one sequence with them.
	KindPolicy = "policy"
	KindGroups = "groups"
	// KindShard is that of a number, in a cohort bucket.
	KindShard = "shard"
)

// KeyEdge is the record of an edge's lease.
func KeyEdge(edge string) string { return KindEdge + "." + Token(edge) }

// KeyUser is the keeper's record of a user.
func KeyUser(user string) string { return KindUser + "." + Token(user) }

// KeyView is the published state of a user.
func KeyView(user string) string { return KindView + "." + Token(user) }

// KeyPolicy is who may know what of a user. It lies in the user's shard.
func KeyPolicy(user string) string { return KindPolicy + "." + Token(user) }

// KeyGroups is which groups a user belongs to. It lies in every shard.
func KeyGroups(user string) string { return KindGroups + "." + Token(user) }

// KeyShard is the ownership record of a shard in a cohort bucket.
func KeyShard(shard int) string { return KindShard + "." + strconv.Itoa(shard) }

// KeyInterest is one part of a viewer's subscription.
func KeyInterest(viewer string, part int) string {
	return Token(viewer) + "." + strconv.Itoa(part)
}

// ParseInterest is the inverse of [KeyInterest].
func ParseInterest(key string) (viewer string, part int, err error) {
	token, number, _ := strings.Cut(key, ".")
	if part, err = strconv.Atoi(number); err != nil || part < 0 || strconv.Itoa(part) != number {
		return "", 0, fmt.Errorf("subjects: %q is not the key of an interest", key)
	}
	if viewer, err = ParseToken(token); err != nil {
		return "", 0, err
	}
	return viewer, part, nil
}

// ParseKey splits a key such as "user.alice" into its kind and id. Keys without
// an id, such as [KeyOwner], have an empty one.
func ParseKey(key string) (kind, id string, err error) {
	kind, token, found := strings.Cut(key, ".")
	if !found {
		return kind, "", nil
	}
	if id, err = ParseToken(token); err != nil {
		return "", "", err
	}
	return kind, id, nil
}

// KVSubject is the subject behind a key of a bucket. KeyValue.Put and Update drop
// a key's TTL, and none of its calls can name the key that fences a write, so
// records are written by publishing here.
func KVSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// KVStream is the stream behind a bucket.
func KVStream(bucket string) string { return "KV_" + bucket }

// KVKey is the key behind a subject of the bucket.
func KVKey(bucket, subject string) string {
	return strings.TrimPrefix(subject, "$KV."+bucket+".")
}

// Headers by which the store and its clients mark the end of a key.
const (
	headerOperation = "KV-Operation"
	headerMarker    = "Nats-Marker-Reason"
	headerRollup    = "Nats-Rollup"
)

// KVGone says whether a message of a bucket's stream ends its key: it was deleted,
// purged or expired.
func KVGone(header map[string][]string) bool {
	return len(header[headerOperation]) > 0 || len(header[headerMarker]) > 0
}

// KVPurge is the header of a message that ends its key.
func KVPurge() map[string][]string {
	return map[string][]string{headerOperation: {"PURGE"}, headerRollup: {"sub"}}
}
