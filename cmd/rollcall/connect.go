package main

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

// remote says which server to talk to, as the nats command does.
type remote struct {
	Server  string `short:"s" env:"NATS_URL" placeholder:"URL" help:"NATS server (default: nats://127.0.0.1:4222)."`
	Creds   string `env:"NATS_CREDS" type:"existingfile" placeholder:"FILE" help:"Credentials file."`
	Context string `env:"NATS_CONTEXT" placeholder:"NAME" help:"NATS context, as made by 'nats context'."`
	Prefix  string `default:"presence" help:"Prefix of the fabric's subjects."`
}

const defaultServer = "nats://127.0.0.1:4222"

// connect opens a connection that survives whatever happens to the server later.
func (r remote) connect(name string) (*nats.Conn, error) {
	options := append(patient(name), nats.Timeout(5*time.Second))
	if r.Creds != "" {
		options = append(options, nats.UserCredentials(r.Creds))
	}
	if r.Context != "" {
		nc, _, err := natscontext.Connect(r.Context, options...)
		if err != nil {
			return nil, fmt.Errorf("connecting with context %q: %w", r.Context, err)
		}
		return nc, nil
	}
	server := r.Server
	if server == "" {
		server = defaultServer
	}
	nc, err := nats.Connect(server, options...)
	if err != nil {
		return nil, fmt.Errorf("no server at %s (%w); `rollcall up` starts one, --server names another", server, err)
	}
	return nc, nil
}

// patient are the options of a connection that is never given up: a dead path is
// noticed within 15 s, and clients do not come back in step.
func patient(name string) []nats.Option {
	return []nats.Option{
		nats.Name("rollcall " + name), nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(500*time.Millisecond, time.Second),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
	}
}
