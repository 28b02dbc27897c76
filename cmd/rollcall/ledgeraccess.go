package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rollcall-io/rollcall/ledger/access"
)

// serves says whether a command of the ledger is for a role. What is not named here is
// for auditors alone; a test wants a decision on every command.
func serves(command string, role access.Role) bool {
	switch command {
	case "report", "definitions show", "access show":
		return true
	case "sessions", "export":
		return role != access.Analyst
	}
	return role == access.Auditor
}

// unattended says whether a command tells nothing to whoever starts it, mostly a service.
// What it may do is up to the database.
func unattended(command string) bool { return command == "run" || command == "archive" }

type ledgerAccessCmd struct {
	Show     accessShowCmd     `cmd:"" help:"Show the rules; others than auditors see what holds for them."`
	Set      accessSetCmd      `cmd:"" help:"Replace the rules by those of a file."`
	Template accessTemplateCmd `cmd:"" help:"Print a file of rules to start from."`
}

func (ledgerAccessCmd) Help() string {
	return `Rules are kept in the store and hold for everybody who uses it by this command, from wherever. They bind nobody who reads
the database by other means: let only a service account read it and give others this command by sudo, or use the views and
GRANTs of PostgreSQL. docs/online-time.md shows both.`
}

type accessShowCmd struct {
	books
	eyes
}

func (c *accessShowCmd) Run(ctx context.Context, std console) error {
	s, err := c.openAs(ctx, false, c.eyes)
	if err != nil {
		return err
	}
	defer s.Close()
	rules, err := s.Rules(ctx)
	if err != nil {
		return err
	}
	switch r := s.reader; {
	case r.Role == access.Analyst:
		_, err = fmt.Fprintf(std.out, "%s: analyst; groups of at least %d users, days of %s\n", r.Account, r.Minimum, cmp.Or(r.Zone, "UTC"))
	case r.Role == access.Lead:
		_, err = fmt.Fprintf(std.out, "%s: lead of %s; %d users, days of %s\n", r.Account, r.Team, len(r.Users), cmp.Or(r.Zone, "UTC"))
	case rules.None():
		_, err = fmt.Fprintln(std.out, "# no rules: whoever can read the store sees everything")
	default:
		var text []byte
		if text, err = access.Format(rules); err == nil {
			_, err = std.out.Write(text)
		}
	}
	return err
}

type accessSetCmd struct {
	File string `arg:"" type:"existingfile" placeholder:"FILE" help:"YAML; 'rollcall ledger access template' prints one. Files of teams are looked for beside it."`
	books
}

func (c *accessSetCmd) Run(ctx context.Context, std console) error {
	raw, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	rules, err := access.Parse(raw, func(name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(c.File), name)
		}
		return os.Open(name)
	})
	if err != nil {
		return wrongly(fmt.Errorf("%s: %w", c.File, err))
	}
	s, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.Close()
	if r, err := rules.Reader(account(), "", ""); err != nil || r.Role != access.Auditor {
		return fmt.Errorf("%w: %s: %s would be no auditor and could not change them again", errUsage, c.File, account())
	}
	if err := note(ctx, s, "access", "", fmt.Sprintf("%d accounts, %d teams", len(rules.Accounts), len(rules.Teams))); err != nil {
		return err
	}
	return s.SetRules(ctx, rules)
}

type accessTemplateCmd struct{}

func (c *accessTemplateCmd) Run(std console) error {
	_, err := std.out.Write(access.Template())
	return err
}
