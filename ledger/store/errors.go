package store

import "errors"

var (
	// ErrDefinition is a definition whose version already means other rules here.
	ErrDefinition = errors.New("store: this version names another definition")

	// ErrInUse is a version that an import or a running ledger has used.
	ErrInUse = errors.New("store: not only rebuilds have written this version")

	// ErrUnknown is a definition version, or a row, that is not there.
	ErrUnknown = errors.New("store: unknown")

	// ErrOvertaken is a batch whose checkpoint does not follow the one that is there.
	ErrOvertaken = errors.New("store: another reader of this source was faster")

	// ErrNewer is a database that a newer program has migrated.
	ErrNewer = errors.New("store: made by a newer version")

	// ErrURL is a place that is neither a path nor a URL of PostgreSQL.
	ErrURL = errors.New("store: neither a path nor a postgres:// URL")
)
