package board

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

var (
	errHost   = errors.New("on loopback the board answers to 127.0.0.1, [::1] and localhost only")
	errOrigin = errors.New("a page of another site asks")
)

// admit refuses what a page of another site has a browser send. A name that its owner
// points at loopback gives the page away by the host that the request names.
func (b *Board) admit(r *http.Request) error {
	if b.cfg.Loopback && !isLoopback(r.Host) {
		return errHost
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host != r.Host {
			return errOrigin
		}
	}
	// A link from elsewhere may open the page, and nothing else.
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" || r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return nil
	}
	return errOrigin
}

// isLoopback says whether the host of a request, which may have a port, is this machine
// whatever a resolver says.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// operator lets through who shows the operator's token, if there is one.
func (b *Board) operator(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !b.isOperator(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "unauthenticated", "this is for operators: the token is missing or another")
			return
		}
		handle(w, r)
	}
}

func (b *Board) isOperator(r *http.Request) bool {
	if b.cfg.OperatorToken == "" {
		return true
	}
	shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	// Digests are of one length, so that the time tells nothing of the token.
	mine, theirs := sha256.Sum256([]byte(b.cfg.OperatorToken)), sha256.Sum256([]byte(shown))
	return is && subtle.ConstantTimeCompare(mine[:], theirs[:]) == 1
}

// answer writes JSON.
func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(body)
}

// refuse says why not, with a code that stays.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message}})
}
