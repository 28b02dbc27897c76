//go:build !unix

package gateway_test

import "time"

func raiseFiles() {}

func processorTime() time.Duration { return 0 }
