package health

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Part of a process is asked how it is. Both methods may be called at any time.
type Part interface {
	// Live is nil while the part's loops turn.
	Live() error
	// Readiness is nil while the part does its work; otherwise it says what is missing.
	Readiness() error
}

// patience is how long a part may take to say that it lives: one whose locks are never
// free does not answer at all.
const patience = 2 * time.Second

var (
	errMute     = fmt.Errorf("does not answer within %s", patience)
	errStarting = errors.New("is not started yet")
)

// Parts are those of one process. The zero value has none.
type Parts struct {
	mu    sync.Mutex
	parts []named
}

type named struct {
	name string
	part Part // nil until it is started
}

// Expect names a part that will be started: the process is not ready before.
func (p *Parts) Expect(name string) { p.Add(name, nil) }

// Add adds a part, or starts one that was expected.
func (p *Parts) Add(name string, part Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.parts {
		if p.parts[i].name == name {
			p.parts[i].part = part
			return
		}
	}
	p.parts = append(p.parts, named{name, part})
}

// Register serves both pages.
func (p *Parts) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { p.answer(w, live) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { p.answer(w, ready) })
}

func live(p Part) error {
	if p == nil {
		return nil
	}
	return p.Live()
}

func ready(p Part) error {
	if p == nil {
		return errStarting
	}
	return p.Readiness()
}

func (p *Parts) answer(w http.ResponseWriter, ask func(Part) error) {
	p.mu.Lock()
	parts := append([]named(nil), p.parts...)
	p.mu.Unlock()
	var text strings.Builder
	code := http.StatusOK
	for i, err := range askAll(parts, ask) {
		if err != nil {
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&text, "%s %v\n", parts[i].name, err)
			continue
		}
		fmt.Fprintf(&text, "%s ok\n", parts[i].name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprint(w, text.String())
}

// askAll asks all parts at once, so that one that hangs holds up no other.
func askAll(parts []named, ask func(Part) error) []error {
	answers := make([]chan error, len(parts))
	for i, p := range parts {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- ask(p.part) }()
	}
	late := time.After(patience)
	out := make([]error, len(parts))
	for i := range parts {
		select {
		case out[i] = <-answers[i]:
			continue
		default:
		}
		select {
		case out[i] = <-answers[i]:
		case <-late:
			out[i] = errMute
			late = time.After(0) // the others have had their time
		}
	}
	return out
}
