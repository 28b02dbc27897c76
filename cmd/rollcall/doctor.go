package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/doctor"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type doctorCmd struct {
	JSON        bool   `name:"json" help:"A JSON object for each finding."`
	SystemCreds string `type:"existingfile" placeholder:"FILE" help:"Credentials of the system account, to ask servers how they store (default: minted with the keys)."`
	remote
}

func (c *doctorCmd) Help() string {
	return `Examines a running fabric and the NATS system under it, one line for each finding: server, storage, streams and buckets against what
the code expects, timing against its rules, replicas, clocks of the store's leaders, readers' lag, keepers, fanouts, edges' leases, and with a canary key
in every bucket whether keys really expire. Nothing else is written.

Exit code 0 if there is no problem, 1 if there is one; warnings and notes do not count.`
}

func (c *doctorCmd) Run(ctx context.Context, std console) error {
	nc, err := c.connectAs(std, "doctor", party{role: identity.Operator, ids: []string{"doctor"}, anyName: true, does: "examine a fabric"})
	if err != nil {
		return err
	}
	defer nc.Close()
	system, err := c.system(std)
	if err != nil {
		return err
	}
	if system != nil {
		defer system.Close()
	}
	problems := 0
	encoder := json.NewEncoder(std.out)
	err = doctor.Examine(ctx, nc, doctor.Config{Prefix: c.Prefix, System: system}, func(f doctor.Finding) {
		if f.Level == doctor.Problem {
			problems++
		}
		if c.JSON {
			encoder.Encode(f) // a broken pipe ends the process
			return
		}
		fmt.Fprintf(std.out, "%-8s %-9s %s\n", f.Level, f.Check, strings.ReplaceAll(f.Text, "\n", " "))
	})
	switch {
	case err != nil && !errors.Is(err, doctor.ErrHopeless):
		return err
	case problems == 1:
		return errors.New("there is a problem")
	case problems > 1:
		return fmt.Errorf("there are %d problems", problems)
	}
	return nil
}

// system connects to the system account, if there is a credential for it; nil without.
func (c *doctorCmd) system(std console) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("rollcall doctor"), nats.Timeout(5 * time.Second), nats.NoReconnect()}
	if c.SystemCreds != "" {
		return target{Server: c.Server, Creds: c.SystemCreds, clientTLS: c.clientTLS}.dial(std, options)
	}
	if c.Creds != "" || c.Context != "" {
		return nil, nil
	}
	authority, err := c.authority()
	if err != nil || authority == nil || authority.System() == "" {
		return nil, err
	}
	credential, err := authority.SystemUser(shift)
	if err != nil {
		return nil, nil // the keys are of an account under somebody else's operator
	}
	nc, err := target{Server: c.Server, clientTLS: c.clientTLS}.dial(std, append(options, credential.Options()...))
	if err != nil {
		return nil, nil // the checks say what is not known for that
	}
	return nc, nil
}
