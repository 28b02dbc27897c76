package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/subjects"
)

// statuses of HTTP for the codes of the protocol.
var statuses = map[subjects.DeviceCode]int{
	subjects.DeviceUnregistered:     http.StatusGone,
	subjects.DeviceUnauthenticated:  http.StatusUnauthorized,
	subjects.DeviceForbidden:        http.StatusForbidden,
	subjects.DeviceInvalid:          http.StatusBadRequest,
	subjects.DeviceTooLarge:         http.StatusRequestEntityTooLarge,
	subjects.DeviceRateLimited:      http.StatusTooManyRequests,
	subjects.DeviceUnavailable:      http.StatusServiceUnavailable,
	subjects.DeviceNotFound:         http.StatusNotFound,
	subjects.DeviceMethodNotAllowed: http.StatusMethodNotAllowed,
	subjects.DeviceInternal:         http.StatusInternalServerError,
}

func refuse(w http.ResponseWriter, err error) {
	refusal := subjects.DeviceErrorOf(err)
	if refusal.Code == subjects.DeviceUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="presence"`)
	}
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	}
	reply(w, statuses[refusal.Code], subjects.DeviceRefusal{Error: refusal})
}

// A document is answered as it is.
type document []byte

func reply(w http.ResponseWriter, status int, answer any) {
	if text, ok := answer.(document); ok {
		w.Header().Set("Content-Type", "application/yaml")
		w.Write(text)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // of our own types
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // whoever has gone does not hear it
}

// identify says who holds a token.
func (g *Gateway) identify(token string) (bearer.Identity, error) {
	if token == "" {
		return bearer.Identity{}, subjects.DeviceErrorf(subjects.DeviceUnauthenticated, "there is no token; send the header \"Authorization: Bearer TOKEN\"")
	}
	who, err := g.cfg.Verify(token)
	if err != nil {
		return who, subjects.DeviceErrorf(subjects.DeviceUnauthenticated, "%v", err)
	}
	return who, nil
}
