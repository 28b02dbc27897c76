// Package cluster holds the tests of a fabric on three NATS servers, in real time and real processes:
// servers, keepers, fanouts and edges are killed, paused, cut off and restarted while users come and
// go, and what viewers were told is compared with who was connected.
//
// They need the build tag cluster and some minutes:
//
//	go test -tags cluster ./e2e/cluster -v
//
// Servers and edges are this test's binary started again (main_test.go), keepers and fanouts the
// rollcall command, which the test builds. The routes between servers go through proxies that the
// test can hold.
package cluster
