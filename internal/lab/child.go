package lab

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// KillChild runs one test of this binary again as a process of its own, with a variable set
// that tells it to be the child, and kills it somewhere after it has printed so many lines.
// It returns false if the child had ended before; one that failed fails t.
func KillChild(t testing.TB, test, variable, value string, lines int) (killed bool) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	c.Env = append(os.Environ(), variable+"="+value)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for printed := bufio.NewScanner(out); lines > 0 && printed.Scan(); lines-- {
	}
	if lines > 0 {
		if err := c.Wait(); err != nil {
			t.Fatalf("the child ended by itself: %v", err)
		}
		return false
	}
	c.Process.Kill()
	c.Wait()
	return true
}
