package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/explain"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type explainCmd struct {
	User     string        `arg:"" help:"The user to explain."`
	Viewer   string        `placeholder:"VIEWER" help:"Explain also what this viewer may know, and is told."`
	Frames   int           `default:"20" help:"How many of the last frames that name the user are shown at most (default ${default})."`
	Back     time.Duration `default:"1h" help:"For how long back the log is searched for them (default ${default})."`
	Messages int           `default:"100000" help:"How many messages of the log are read for them at most (default ${default})."`
	JSON     bool          `name:"json" help:"Print a JSON object."`
	remote
}

func (c *explainCmd) Help() string {
	return `Says why a user is shown as it is: its devices, the edges that hold their connections and those edges' leases, the last sign of
life, what is due and when, its policy, and the last frames of the log that name it. With --viewer also which rule of the policy
counts for that viewer, and what a fanout answers it now. Nothing is changed. It reads everything, so it takes an operator's
credential.

Exit code 1 if the fabric does not know the user.`
}

func (c *explainCmd) Run(ctx context.Context, std console) error {
	for _, id := range []string{c.User, c.Viewer} {
		if err := rollcall.CheckID(id); err != nil && (id != "" || c.User == "") {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	if c.Frames < 0 || c.Back < 0 || c.Messages < 0 {
		return fmt.Errorf("%w: --frames, --back and --messages must not be negative", errUsage)
	}
	nc, err := c.connectAs(std, "explain", party{role: identity.Operator, ids: []string{"explain"}, anyName: true, does: "look into the records of users"})
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*answerTimeout)
	defer cancel()
	report, err := explain.Ask(ctx, nc, explain.Query{
		Prefix: c.Prefix, User: c.User, Viewer: c.Viewer, Frames: c.Frames, Back: c.Back, Messages: c.Messages,
	})
	if err != nil {
		return severed(nc, err)
	}
	if c.JSON {
		err = json.NewEncoder(std.out).Encode(report)
	} else {
		err = report.Write(std.out)
	}
	if err == nil && !report.Known {
		err = errors.New("the fabric does not know this user")
	}
	return err
}
