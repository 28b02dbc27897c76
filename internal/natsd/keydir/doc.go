// Package keydir keeps the keys of a fabric in a directory.
//
//	operator.nk  system.nk  account.nk   seeds of the operator and of two accounts
//	roles/viewer.json …                  one signing key for each role
//
// What mints for a role is in one file, so that a backend can be given
// roles/viewer.json and nothing else. operator.nk and system.nk are missing where the
// NATS system has an operator of its own.
//
// # What it guarantees
//
// Keys are made once: nothing but [Replace] overwrites one, and a directory that holds only some of
// them is an error, because keys that are made anew lock everybody out. Files have the
// mode 0600, directories 0700; what others can read is refused. A crash while the keys
// are made leaves nothing: they appear all at once.
package keydir
