package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/subjects/identity"
)

// signIn asks a board to be somebody.
func signIn(t *testing.T, site, user string) (code int, grant struct {
	User, Gateway string
	Viewer        struct{ Role, JWT string }
}) {
	t.Helper()
	response, err := http.Post(site+"board/sign-in", "application/json", strings.NewReader(`{"user":"`+user+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if err := json.NewDecoder(response.Body).Decode(&grant); err != nil {
			t.Fatal(err)
		}
	}
	return response.StatusCode, grant
}

// siteOf is where up says that the board is.
func siteOf(t *testing.T, says string) string {
	t.Helper()
	match := regexp.MustCompile(`HTTP +(http://\S+)`).FindStringSubmatch(says)
	if match == nil {
		t.Fatal(says)
	}
	return match[1] + "/"
}

// Up serves the board, on which whoever works on this machine signs in as anybody, unless
// that is switched off.
func TestBoardOfUp(t *testing.T) {
	site := siteOf(t, upSays(t, "--data", t.TempDir()))
	response, err := http.Get(site)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if policy := response.Header.Get("Content-Security-Policy"); response.StatusCode != http.StatusOK || !strings.Contains(policy, "connect-src 'self' ws://127.0.0.1:") {
		t.Errorf("%d, %s", response.StatusCode, policy)
	}
	code, grant := signIn(t, site, "ada")
	if code != http.StatusOK || grant.User != "ada" || grant.Viewer.Role != string(identity.Viewer) || grant.Viewer.JWT == "" || grant.Gateway == "" {
		t.Errorf("%d, %+v", code, grant)
	}
	asked, err := http.NewRequest("GET", strings.TrimSuffix(site, "/")+"/api/v1/users/ada/presence", nil)
	if err != nil {
		t.Fatal(err)
	}
	asked.Header.Set("Authorization", "Bearer "+grant.Gateway)
	if response, err = http.DefaultClient.Do(asked); err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the gateway answers %d", response.StatusCode)
	}
}

// A board beside a fabric, for operators with a token.
func TestBoardBeside(t *testing.T) {
	data := t.TempDir()
	says := upSays(t, "--data", data, "--no-sign-in")
	url := natsURL(says)
	if code, _ := signIn(t, siteOf(t, says), "ada"); code != http.StatusNotFound {
		t.Errorf("signed in although that is off: %d", code)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	beside, ended := newOutput(), make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"board", "--listen", "127.0.0.1:0", "-s", url, "--operator-token", token}, console{beside, beside})
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("the board ended with %d: %s", code, beside)
		}
	})
	site := beside.await(t, `The board is at (http://\S+/)`)
	if code, grant := signIn(t, site, "ada"); code != http.StatusOK || grant.Gateway != "" {
		t.Errorf("%d, %+v", code, grant)
	}
	for shown, want := range map[string]int{"": http.StatusUnauthorized, "0123456789abcdef": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", site+"board/people", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+shown)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("token %q: %d, want %d", shown, response.StatusCode, want)
		}
	}
	code, _, errs := command(t, "board", "--listen", "127.0.0.1:0", "-s", url, "--operator-token", os.DevNull)
	if code != exitUsage || !strings.Contains(errs, "less than 16") {
		t.Errorf("an empty token: %d, %s", code, errs)
	}
}
