package natsd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
)

// Subjects of the system account by which a server's resolver is asked and told; see
// https://docs.nats.io/running-a-nats-service/configuration/sys_accounts.
const (
	subjectUpdate = "$SYS.REQ.CLAIMS.UPDATE"
	subjectLookup = "$SYS.REQ.ACCOUNT.%s.CLAIMS.LOOKUP"
)

// Errors of claims.
var (
	// ErrClaims says that a server did not take or give an account's claims.
	ErrClaims = errors.New("natsd: claims of an account")
	// ErrUnmanaged says that a server has no accounts that could be changed over this
	// connection.
	ErrUnmanaged = errors.New("natsd: the connection is not one of the system account, or the server takes no accounts over it")
)

// LookupClaims asks for the claims of an account over a connection of the system
// account; nil if the server knows none.
func LookupClaims(ctx context.Context, nc *nats.Conn, account string) (*jwt.AccountClaims, error) {
	answer, err := nc.RequestWithContext(ctx, fmt.Sprintf(subjectLookup, account), nil)
	if err != nil {
		return nil, unmanaged("asking for "+account, err)
	}
	if len(answer.Data) == 0 {
		return nil, nil
	}
	claims, err := jwt.DecodeAccountClaims(string(answer.Data))
	if err != nil {
		return nil, fmt.Errorf("%w: of %s: %w", ErrClaims, account, err)
	}
	return claims, nil
}

// PushClaims has a server, and with it all of its cluster, take an account's token. It
// takes effect on connected clients at once.
func PushClaims(ctx context.Context, nc *nats.Conn, token string) error {
	answer, err := nc.RequestWithContext(ctx, subjectUpdate, []byte(token))
	if err != nil {
		return unmanaged("update", err)
	}
	var result struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &result); err != nil {
		return fmt.Errorf("%w: update: %w", ErrClaims, err)
	}
	if result.Error != nil {
		return fmt.Errorf("%w: update refused: %s", ErrClaims, strings.TrimSpace(result.Error.Description))
	}
	return nil
}

// unmanaged says what no answer means.
func unmanaged(what string, err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return ErrUnmanaged
	}
	return fmt.Errorf("%w: %s: %w", ErrClaims, what, err)
}
