// Package duckdb holds no code, only tests: DuckDB as a judge of the interval kernel,
// of its results and of its speed, and as a reader of archives. It is a module of its own
// because DuckDB needs cgo, which nothing else in the project does.
//
//	cd ledger/interval/duckdb && go test ./...
//
// Its go.mod shares some requirements with the root's. When those move on there, run
// go mod tidy here too.
package duckdb
