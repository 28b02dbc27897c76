package rollcall

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxID is the longest id of a user, device, edge or viewer, in bytes.
const MaxID = 128

// ErrID is returned, wrapped with the reason, for an id that no part of the
// fabric accepts.
var ErrID = errors.New("rollcall: invalid id")

// CheckID says whether id may name a user, device, edge or viewer: one to
// [MaxID] bytes of valid UTF-8. Any character is allowed; subjects and keys
// carry ids in encoded form.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: empty", ErrID)
	case len(id) > MaxID:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrID, len(id), MaxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: not UTF-8", ErrID)
	}
	return nil
}

// An Endpoint is one app instance (device) of a user. It has at most one current
// connection at any time.
type Endpoint struct {
	User   string
	Device string
}

// Check says whether both ids are acceptable.
func (e Endpoint) Check() error {
	if err := CheckID(e.User); err != nil {
		return fmt.Errorf("user: %w", err)
	}
	if err := CheckID(e.Device); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}
