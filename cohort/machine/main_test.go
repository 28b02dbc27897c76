package machine

import (
	"flag"
	"os"
	"testing"
)

// A hundred random histories, which is rapid's default, are too few: what was wrong here was found by some
// hundreds.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "500"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
