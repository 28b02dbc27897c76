package subjects

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/rollcall-io/rollcall"
)

// escape starts every token that is not the id itself.
const escape = "="

// strict refuses trailing bits, so that every id has exactly one token.
var strict = base64.RawURLEncoding.Strict()

// Token encodes an id as a subject token: as it is if it consists of letters,
// digits, '_' and '-', otherwise '=' and the unpadded base64url of its bytes.
func Token(id string) string {
	if plain(id) {
		return id
	}
	return escape + strict.EncodeToString([]byte(id))
}

// ParseToken is the inverse of [Token]. It fails for a token that Token does not
// produce and for an id that [rollcall.CheckID] refuses.
func ParseToken(token string) (string, error) {
	if plain(token) {
		return checked(token)
	}
	body, escaped := strings.CutPrefix(token, escape)
	if !escaped {
		return "", fmt.Errorf("subjects: %q is not a token", token)
	}
	id, err := strict.DecodeString(body)
	if err != nil || strings.ContainsAny(body, "\r\n") {
		return "", fmt.Errorf("subjects: %q is not a token", token)
	}
	if plain(string(id)) {
		return "", fmt.Errorf("subjects: token %q is not in its shortest form", token)
	}
	return checked(string(id))
}

func checked(id string) (string, error) {
	if err := rollcall.CheckID(id); err != nil {
		return "", err
	}
	return id, nil
}

// plain says whether an id is its own token.
func plain(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return id != ""
}
