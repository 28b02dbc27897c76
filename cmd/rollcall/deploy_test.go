package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-io/rollcall/internal/lab"
)

const deployDir = "../../deploy"

// TestDeploy does what deploy/README.md says: its commands make keys, accounts, the fabric and
// credentials, with three servers that run from the configuration there, and parts that run from
// the units there. What the page shows is what happens.
func TestDeploy(t *testing.T) {
	page := readFile(t, filepath.Join(deployDir, "README.md"))
	d := &deployment{t: t, follower: follower{dir: t.TempDir(), bin: t.TempDir()}, ca: lab.NewCA(t)}
	d.install()
	did := 0
	for _, b := range blocksOf(strings.Split(page, "\n")) {
		if !slices.Equal(b.words, []string{"console"}) {
			continue
		}
		if got := d.console(t, b); !alike(b.lines, got) {
			t.Errorf("deploy/README.md:%d says\n%s\nbut it is\n%s", b.first, strings.Join(b.lines, "\n"), strings.Join(got, "\n"))
		}
		did++
		switch {
		case d.cluster == nil:
			d.startServers()
		case len(d.parts) == 0 && d.has("gateway.creds"):
			d.startParts()
		}
	}
	if did < 4 || len(d.parts) == 0 {
		t.Errorf("%d blocks, %d parts", did, len(d.parts))
	}
	for unit, part := range d.parts {
		part.stop(t) // politely, with exit code 0
		if strings.Contains(part.errs.String(), "level=ERROR") {
			t.Errorf("%s: %s", unit, part.errs)
		}
	}
}

type deployment struct {
	t *testing.T
	follower
	ca      *lab.CA
	cluster *lab.Cluster
	parts   map[string]child
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (d *deployment) write(name, text string, mode fs.FileMode) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *deployment) has(name string) bool {
	_, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil
}

// install makes this binary the command rollcall.
func (d *deployment) install() {
	script := fmt.Sprintf("#!/bin/sh\n%s=\"$(printf '%%s\\n' \"$@\")\" exec %s\n", childArgs, os.Args[0])
	if err := os.WriteFile(filepath.Join(d.bin, "rollcall"), []byte(script), 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.t.Setenv("NATS_CA", d.ca.File)
}

// startServers runs three servers from the configuration, with only paths and addresses replaced.
func (d *deployment) startServers() {
	cert, key := d.ca.Issue("server")
	conf := readFile(d.t, filepath.Join(deployDir, "nats", "nats-server.conf"))
	accounts := readFile(d.t, filepath.Join(d.dir, "accounts.conf"))
	d.cluster = lab.NewCluster(d.t, func(n int) *server.Options {
		node := fmt.Sprint("nats-", n+1)
		store := filepath.Join(d.dir, node)
		if err := os.MkdirAll(store, 0o700); err != nil {
			d.t.Fatal(err)
		}
		paths := strings.NewReplacer("/etc/nats/tls/server.pem", cert, "/etc/nats/tls/server-key.pem", key, "/etc/nats/tls/ca.pem", d.ca.File,
			"/var/lib/nats", store, "./accounts.conf", node+"-accounts.conf")
		d.write(node+"-accounts.conf", paths.Replace(accounts), 0o600)
		d.t.Setenv("NATS_NODE", node)
		options, err := server.ProcessConfigFile(d.write(node+".conf", paths.Replace(conf), 0o600))
		if err != nil {
			d.t.Fatal(err)
		}
		options.NoSigs = true
		return options
	})
	d.t.Setenv("NATS_URL", strings.ReplaceAll(d.cluster.URL(), "nats://", "tls://"))
}

// startParts runs what the units start, and waits until it works.
func (d *deployment) startParts() {
	d.parts = make(map[string]child)
	for unit, instance := range map[string]string{
		"rollcall-keeper@1.service": "1", "rollcall-keeper@2.service": "2", "rollcall-fanout@1.service": "1", "rollcall-fanout@2.service": "2",
		"rollcall-ledger.service": "", "rollcall-gateway.service": "",
	} {
		d.parts[unit] = d.startUnit(regexp.MustCompile(`@\d`).ReplaceAllString(unit, "@"), instance)
	}
	end := time.Now().Add(time.Minute)
	for _, unit := range slices.Sorted(maps.Keys(d.parts)) {
		for !strings.Contains(d.parts[unit].out.String(), " runs on ") && !strings.Contains(d.parts[unit].out.String(), "gateway-1") {
			if time.Now().After(end) {
				d.t.Fatalf("%s does not start:\n%s%s", unit, d.parts[unit].out, d.parts[unit].errs)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for !d.settled() {
		if time.Now().After(end) {
			d.t.Fatal("the parts do not settle")
		}
	}
}

// settled says whether every shard is shown live: then it is known that nobody was ever there.
func (d *deployment) settled() bool {
	answer := strings.Join(d.run(d.t, "rollcall who ann bob carl dora emil fred gus hal"), "\n")
	return answer == "rollcall: nothing is known of ann, bob, carl, dora, emil, fred, gus, hal"
}

// startUnit runs what a unit's ExecStart says, as systemd would, with files in our directory.
func (d *deployment) startUnit(unit, instance string) child {
	d.t.Helper()
	credentials := d.t.TempDir()
	specifiers := strings.NewReplacer("%i", instance, "%d", credentials)
	var environment, command []string
	lines := bufio.NewScanner(strings.NewReader(readFile(d.t, filepath.Join(deployDir, "systemd", unit))))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		value = specifiers.Replace(value)
		switch key {
		case "LoadCredential":
			name, path, _ := strings.Cut(value, ":")
			if err := os.Link(filepath.Join(d.dir, filepath.Base(path)), filepath.Join(credentials, name)); err != nil {
				d.t.Fatalf("%s: %v", unit, err)
			}
		case "Environment":
			environment = append(environment, value)
		case "ExecStart":
			command = strings.Fields(value)
		}
	}
	if len(command) == 0 || command[0] != "/usr/bin/rollcall" {
		d.t.Fatalf("%s starts %v", unit, command)
	}
	for i, word := range command {
		switch {
		case strings.HasPrefix(word, "/var/lib/"):
			command[i] = d.t.TempDir()
		case i > 0 && slices.Contains([]string{"--metrics", "--listen"}, command[i-1]):
			command[i] = "127.0.0.1:0"
		}
	}
	return startChildIn(d.t, environment, command[1:]...)
}
