package identity_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A backend mints for a user who has logged in.
func ExampleIssuer_Viewer() {
	file, err := os.ReadFile("keys/roles/viewer.json")
	if err != nil {
		log.Print(err)
		return
	}
	key, err := identity.ParseSigningKey(file)
	if err != nil {
		log.Print(err)
		return
	}
	issuer, err := identity.NewIssuer(key)
	if err != nil {
		log.Print(err)
		return
	}
	credential, err := issuer.Viewer("alice", time.Hour)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(credential.JWT, credential.Seed, credential.InboxPrefix()) // to alice's client
}

// A gateway connects with the file that `rollcall token edge --out` has written.
func ExampleFromFile() {
	options, err := identity.FromFile("gateway-1.creds")
	if err != nil {
		log.Print(err)
		return
	}
	nc, err := nats.Connect("tls://nats.example.com", append(options, nats.MaxReconnects(-1))...)
	if err != nil {
		log.Print(err)
		return
	}
	defer nc.Close()
}
