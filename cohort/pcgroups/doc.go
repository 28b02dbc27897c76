// Package pcgroups holds no code, only a test: what moves when a member joins, beside
// orbit.go/pcgroups, the partitioned consumer groups of the NATS project. It is a module of its own so
// that the product does not depend on them.
//
//	cd cohort/pcgroups && go test -v ./...
//
// Its go.mod shares some requirements with the root's. When those move on there, run go mod tidy here too.
//
// They differ in more than moves: membership there is changed by hand, and a member that dies leaves its
// partitions to another process of the same name, if there is one.
package pcgroups
