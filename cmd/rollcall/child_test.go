package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// childArgs is the command line of a process that a test starts, one argument a line.
const childArgs = "ROLLCALL_TEST_CHILD"

// childGets is the address from which such a process gets what it prints: curl, which not
// every machine has.
const childGets = "ROLLCALL_TEST_GET"

func TestMain(m *testing.M) {
	if address := os.Getenv(childGets); address != "" {
		os.Exit(get(address))
	}
	args := os.Getenv(childArgs)
	if args == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, strings.Split(args, "\n"), console{os.Stdout, os.Stderr}))
}

func get(address string) (code int) {
	answer, err := http.Get("http://" + address)
	if err == nil {
		defer answer.Body.Close()
		_, err = io.Copy(os.Stdout, answer.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		return 1
	}
	return 0
}

// A child is a command in a process of its own.
type child struct {
	*exec.Cmd
	out, errs *output
}

// startChild starts a process; it is killed when the test ends.
func startChild(t *testing.T, args ...string) child { return startChildIn(t, nil, args...) }

// startChildIn starts a process with more in its environment.
func startChildIn(t *testing.T, environment []string, args ...string) child {
	t.Helper()
	c := child{exec.Command(os.Args[0]), newOutput(), newOutput()}
	c.Env, c.Stdout, c.Stderr = append(append(os.Environ(), environment...), childArgs+"="+strings.Join(args, "\n")), c.out, c.errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill ends the process without a word, if it still runs.
func (c child) kill() {
	if c.ProcessState == nil {
		c.Process.Kill()
		c.Wait()
	}
}

// stop asks the process to end, which must succeed.
func (c child) stop(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("ended with %v: %s", err, c.errs)
	}
}
