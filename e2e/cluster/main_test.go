//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"testing"
)

// role says what this binary is to be instead of a test, with the arguments that follow.
const role = "ROLLCALL_CLUSTER_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "server":
		err = runServer(os.Args[1])
	case "gateway":
		err = runGateway(os.Args[1], os.Args[2], os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
