module github.com/rollcall-io/rollcall/cohort/pcgroups

go 1.26.0

replace github.com/rollcall-io/rollcall => ../..

require (
	github.com/rollcall-io/rollcall v0.0.0-00010101000000-000000000000
	github.com/synadia-io/orbit.go/pcgroups v0.2.2
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.17 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
