//go:build cluster

package cluster

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process can be killed, paused and started again under the same name.
type process struct {
	t       *testing.T
	name    string
	command []string
	env     []string
	log     string

	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}

	mu    sync.Mutex
	lines []string // of stdout, not yet taken
	came  chan struct{}
}

// newProcess describes a process; start starts it. What it says on stderr is kept in a file, whose
// end is shown if the test fails.
func newProcess(t *testing.T, dir, name string, env []string, command ...string) *process {
	if *logs != "" {
		dir = *logs
	}
	p := &process{t: t, name: name, command: command, env: env, log: filepath.Join(dir, name+".log"), came: make(chan struct{}, 1)}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.t.Logf("%s said at last:\n%s", name, tail(p.log, 40))
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), p.env...), log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	p.ended = make(chan struct{})
	go p.read(out, p.cmd, p.ended)
}

func (p *process) read(out io.Reader, cmd *exec.Cmd, ended chan struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
		select {
		case p.came <- struct{}{}:
		default:
		}
	}
	cmd.Wait()
	close(ended)
}

// await takes lines of stdout up to one that contains text.
func (p *process) await(text string, limit time.Duration) {
	p.t.Helper()
	deadline := time.After(limit)
	for {
		p.mu.Lock()
		for i, line := range p.lines {
			if strings.Contains(line, text) {
				p.lines = p.lines[i+1:]
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
		select {
		case <-p.came:
		case <-p.ended:
			p.t.Fatalf("%s has ended and not said %q:\n%s", p.name, text, tail(p.log, 30))
		case <-deadline:
			p.t.Fatalf("%s did not say %q in %s:\n%s", p.name, text, limit, tail(p.log, 30))
		}
	}
}

func (p *process) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatalf("%s hears nothing: %v", p.name, err)
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *process) pause()  { p.t.Helper(); p.signal(syscall.SIGSTOP) }
func (p *process) resume() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// kill ends the process without a word, if it runs.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.ended
}

// stop asks it to end and waits for it.
func (p *process) stop(limit time.Duration) {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("%s has not ended in %s", p.name, limit)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with exit code %d:\n%s", p.name, code, tail(p.log, 20))
	}
}

func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
