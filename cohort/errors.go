package cohort

import "errors"

// Errors of this package; [rollcall.ErrNotOwner] is what a commit fails with whose partition
// belongs to somebody else by now.
var (
	// ErrConfig is returned, wrapped with the reason, for configurations that make no sense.
	ErrConfig = errors.New("cohort: configuration refused")
	// ErrDiffers says that the group was made with another number of partitions, or other timing.
	ErrDiffers = errors.New("cohort: the group was made differently")
	// ErrNoGroup says that there is no group of this name.
	ErrNoGroup = errors.New("cohort: no such group")
	// ErrReplaced says that another process has joined under the same id.
	ErrReplaced = errors.New("cohort: replaced by a newer connection of this member")
	// ErrLeft says that the member has left.
	ErrLeft = errors.New("cohort: left")
	// ErrBackwards refuses a commit below the offset that was committed before.
	ErrBackwards = errors.New("cohort: offset is below the committed one")
)

// errConflict says that a record has another revision than was expected.
var errConflict = errors.New("cohort: the record has changed")

// errUnregistered says that a member's record was ended.
var errUnregistered = errors.New("cohort: unregistered")
