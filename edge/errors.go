package edge

import (
	"errors"

	"github.com/rollcall-io/rollcall"
)

// Errors of this package.
var (
	// ErrReplaced ends Run: another process has taken over the edge id. The host
	// must close its sockets; the new process speaks for the id now.
	ErrReplaced = errors.New("edge: replaced by another process with the same id")
	// ErrClosed is returned once the node drains or Run has ended.
	ErrClosed = errors.New("edge: node closed")
	// ErrNotReady is returned by Connect before the node has found the fabric;
	// see [Node.Ready].
	ErrNotReady = errors.New("edge: fabric not found yet")
	// ErrGone is returned for a connection that has ended.
	ErrGone = errors.New("edge: connection gone")
	// ErrState is returned, wrapped with the reason, for a state that cannot be told.
	ErrState = errors.New("edge: invalid state")
	// ErrConfig is returned, wrapped with the reason, for a configuration that
	// cannot work.
	ErrConfig = errors.New("edge: invalid configuration")
	// ErrRunning is returned by a second call of Run.
	ErrRunning = errors.New("edge: Run called twice")
	// ErrDisconnected ends Run: the NATS connection was closed for good.
	ErrDisconnected = rollcall.ErrDisconnected
)
