package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// worker joins a group with a credential of its own, and works until the test ends.
func worker(t *testing.T, url, id string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), id+".creds")
	if code, _, errs := command(t, "token", "worker", "--id", id, "--out", file); code != 0 {
		t.Fatal(errs)
	}
	options, err := identity.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithCancel(context.Background())
	m, err := cohort.Join(ctx, nc, cohort.Config{Group: "orders", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- m.Own(ctx, func(ctx context.Context, g rollcall.Grant) error {
			defer func() { <-ctx.Done() }()
			return m.Commit(ctx, g.Shard, 7)
		})
	}()
	t.Cleanup(func() { cancel(); <-ended; <-m.Done() })
}

// An operator makes a group, sees who is there, drains one member, and moves a partition.
func TestCohortAsItIsTyped(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	says := func(args ...string) string {
		t.Helper()
		code, out, errs := command(t, append([]string{"cohort"}, append(args, "-s", url)...)...)
		if code != 0 {
			t.Fatalf("%v: %d, %s", args, code, errs)
		}
		return out
	}
	refuses := func(code int, reason string, args ...string) {
		t.Helper()
		got, _, errs := command(t, append([]string{"cohort"}, append(args, "-s", url)...)...)
		if got != code || !strings.Contains(errs, reason) {
			t.Errorf("%v: %d, %s; want %d, %s", args, got, errs, code, reason)
		}
	}
	if out := says("ls"); out != "" {
		t.Errorf("no groups: %q", out)
	}
	refuses(1, `no such group: "orders"`, "show", "orders")
	refuses(1, "as in `rollcall up`", "show", "keeper", "--bucket", "keeper")
	says("create", "orders", "--partitions", "5", "--hold", "3s")
	refuses(1, "has 5 partitions, not 6", "create", "orders", "--partitions", "6", "--hold", "3s")
	refuses(2, "must be 1 to", "create", "others", "--partitions", "5000")
	refuses(2, "at least one", "create", "others", "--partitions", "0")
	if out := says("ls"); !strings.Contains(out, "orders") || !strings.Contains(out, " 5 ") {
		t.Errorf("a group without members: %s", out)
	}

	watching := newOutput()
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan int, 1)
	go func() {
		watched <- run(ctx, []string{"cohort", "watch", "orders", "-s", url}, console{watching, watching})
	}()
	watching.await(t, "watching orders")
	worker(t, url, "a")
	watching.await(t, `partition 4: nobody → a, generation \d+ \(first\)`)
	worker(t, url, "b")
	watching.await(t, `partition 4: a → b, generation \d+ \(balance\)`)

	refuses(2, `there is no member "c"; there is: a, b`, "drain", "orders", "c")
	if out := says("drain", "orders", "b"); !strings.Contains(out, "b has no partitions") {
		t.Errorf("drained: %s", out)
	}
	watching.await(t, `partition 4: b → a, generation \d+ \(drained\)`)
	refuses(2, "b is drained", "move", "orders", "0", "b")
	says("drain", "orders", "b", "--undo")
	watching.await(t, `partition 4: a → b, generation \d+ \(balance\)(?s:.*)partition 4: a → b`)
	refuses(2, "the group has 0 to 4", "move", "orders", "5", "b")
	refuses(2, "or --free", "move", "orders", "0")
	says("move", "orders", "0", "b")
	watching.await(t, `partition 0: a → b, generation \d+ \(moved\)`)
	if out := says("show", "orders"); !strings.Contains(out, "to stay with b") || !strings.Contains(out, "b       healthy") {
		t.Errorf("shows:\n%s", out)
	}
	says("move", "orders", "0", "--free")
	var shown struct {
		Group      string
		Members    []struct{ ID, State string }
		Partitions []struct{ Owner string }
		Parts      map[int]struct{ Offset uint64 }
		Pinned     map[int]string
	}
	if err := json.Unmarshal([]byte(says("show", "orders", "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Group != "orders" || len(shown.Members) != 2 || len(shown.Partitions) != 5 || shown.Parts[0].Offset != 7 || len(shown.Pinned) != 0 {
		t.Errorf("%+v", shown)
	}
	stop()
	if code := <-watched; code != 0 {
		t.Errorf("watch ended with %d", code)
	}
}

// Who may not look after groups is told so before the server is asked.
func TestCohortRefusesOtherCredentials(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	file := filepath.Join(t.TempDir(), "e.creds")
	if code, _, errs := command(t, "token", "edge", "--id", "e", "--out", file); code != 0 {
		t.Fatal(errs)
	}
	code, _, errs := command(t, "cohort", "ls", "-s", url, "--creds", file)
	if code != 2 || !strings.Contains(errs, "may not look after worker groups") {
		t.Errorf("%d, %s", code, errs)
	}
}
