package edge

import (
	"fmt"
	"unicode/utf8"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Session is what the ledger of online time should know of a connection. It makes no
// difference to who is shown as online.
type Session struct {
	// ID is the application's name for the session, the same when the device
	// reconnects, by which the session goes on. Empty makes every connection a session
	// of its own.
	ID string
	Client
}

// Client is what a session runs on, each at most [subjects.MaxClient] bytes. The
// values should be few: the node keeps every combination once, and reports group by
// them.
type Client struct{ Type, Version, Channel, Region string }

func (s Session) check() error {
	if s.ID != "" {
		if err := rollcall.CheckID(s.ID); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	for _, word := range []string{s.Type, s.Version, s.Channel, s.Region} {
		if len(word) > subjects.MaxClient || !utf8.ValidString(word) {
			return fmt.Errorf("%w: client must be UTF-8 of at most %d bytes", ErrState, subjects.MaxClient)
		}
	}
	return nil
}

// originOf a connection; nil if nothing is known.
func originOf(c *Conn) *wire.Origin {
	client := c.now.Value().client
	session := c.ids[len(c.endpoint()):]
	if session == "" && client == (Client{}) {
		return nil
	}
	return &wire.Origin{
		Session: session, ClientType: client.Type, ClientVersion: client.Version, Channel: client.Channel, Region: client.Region,
	}
}
