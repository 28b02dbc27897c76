package health_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/rollcall-io/rollcall/internal/health"
)

type part struct {
	live, ready error
	hangs       chan struct{}
}

func (p part) Live() error {
	if p.hangs != nil {
		<-p.hangs
	}
	return p.live
}

func (p part) Readiness() error { return p.ready }

func TestPages(t *testing.T) {
	loading := errors.New("loads shard 3")
	for name, c := range map[string]struct {
		parts                  map[string]health.Part
		healthz, readyz        int
		lineHealthz, lineReady string
	}{
		"well":     {map[string]health.Part{"keeper": part{}}, 200, 200, "keeper ok\n", "keeper ok\n"},
		"loading":  {map[string]health.Part{"keeper": part{ready: loading}}, 200, 503, "keeper ok\n", "keeper loads shard 3\n"},
		"stuck":    {map[string]health.Part{"keeper": part{live: errors.New("has stopped ticking")}}, 503, 200, "keeper has stopped ticking\n", "keeper ok\n"},
		"expected": {map[string]health.Part{"ledger": nil}, 200, 503, "ledger ok\n", "ledger is not started yet\n"},
		"nothing":  {nil, 200, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var parts health.Parts
			for name, p := range c.parts {
				if parts.Expect(name); p != nil {
					parts.Add(name, p)
				}
			}
			see(t, &parts, "/healthz", c.healthz, c.lineHealthz)
			see(t, &parts, "/readyz", c.readyz, c.lineReady)
		})
	}
}

// TestHanging: a part whose lock is never free is told, and the others beside it.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var parts health.Parts
		parts.Add("keeper", part{hangs: hangs})
		parts.Add("fanout", part{})
		parts.Add("ledger", part{hangs: hangs})
		see(t, &parts, "/healthz", 503, "keeper does not answer within 2s\nfanout ok\nledger does not answer within 2s\n")
		close(hangs)
		synctest.Wait()
		see(t, &parts, "/healthz", 200, "keeper ok\nfanout ok\nledger ok\n")
	})
}

func see(t *testing.T, parts *health.Parts, path string, code int, text string) {
	t.Helper()
	mux := http.NewServeMux()
	parts.Register(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != code || w.Body.String() != text {
		t.Errorf("%s answers %d %q, want %d %q", path, w.Code, w.Body, code, text)
	}
}
