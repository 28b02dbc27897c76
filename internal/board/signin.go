package board

import (
	"encoding/json"
	"mime"
	"net/http"
	"time"

	"github.com/rollcall-io/rollcall"
)

// A Grant is what a page needs to be a user: an application that signs its users in
// answers with the same.
type Grant struct {
	User string `json:"user"`
	// Viewer is the credential of the user as a viewer.
	Viewer any `json:"viewer"`
	// Gateway is a token for the gateway, empty if there is none: the page then looks, and is no
	// device.
	Gateway string `json:"gateway,omitempty"`
	// Expires is when the page must ask again.
	Expires time.Time `json:"expires"`
}

// maxSignIn is how large a request to sign in may be.
const maxSignIn = 4 << 10

// signIn is for development. It takes JSON only, which a form of another site cannot
// send.
func (b *Board) signIn(w http.ResponseWriter, r *http.Request) {
	if b.cfg.SignIn == nil {
		refuse(w, http.StatusNotFound, "not_found", "there is no development sign-in here")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "invalid", "the body must be application/json")
		return
	}
	var request struct {
		User string `json:"user"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "the body must be like {\"user\": \"alice\"}")
		return
	}
	if err := rollcall.CheckID(request.User); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	grant, err := b.cfg.SignIn(r.Context(), request.User)
	if err != nil {
		b.cfg.Logger.Warn("sign-in", "err", err)
		refuse(w, http.StatusInternalServerError, "internal", "no credential could be made; the log says why")
		return
	}
	answer(w, grant)
}

// serveConfig says what the page can do here.
func (b *Board) serveConfig(w http.ResponseWriter, r *http.Request) {
	answer(w, map[string]any{
		"prefix": b.cfg.Prefix, "websocket": b.cfg.WebSocket, "gateway": b.cfg.Gateway,
		"development": b.cfg.SignIn != nil, "sign_in_url": b.cfg.SignInURL,
		"operator_token": b.cfg.OperatorToken != "", "ledger": b.cfg.Ledger != nil,
	})
}
