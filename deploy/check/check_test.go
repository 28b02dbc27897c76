// Package check holds the compose file against the specification of Compose.
package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// What the file mounts is there, or made by the README's steps; the servers are of the version that
// the tests run; every part has a credential of its own.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(project.Services); n != 9 {
		t.Errorf("%d services", n)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(mod)[1]
	credentials := make(map[string]string)
	for name, s := range project.Services {
		if strings.HasPrefix(name, "nats-") {
			if s.Image != "nats:"+string(version) {
				t.Errorf("%s is of %s, and go.mod of %s", name, s.Image, version)
			}
			if node := s.Environment["NATS_NODE"]; node == nil || *node != name {
				t.Errorf("%s calls itself %v", name, node)
			}
			for _, v := range s.Volumes {
				if _, err := os.Stat(v.Source); err != nil && v.Type == "bind" && !strings.Contains(v.Source, "/secrets/") {
					t.Errorf("%s mounts %s: %v", name, v.Source, err)
				}
			}
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s is built from nothing: %v", name, err)
		}
		if !s.ReadOnly || len(s.CapDrop) == 0 {
			t.Errorf("%s may write to its image, or has capabilities", name)
		}
		for _, secret := range s.Secrets {
			if secret.Target != "nats.creds" {
				continue
			}
			if other, ok := credentials[secret.Source]; ok {
				t.Errorf("%s and %s have the same credential", name, other)
			}
			credentials[secret.Source] = name
		}
	}
	if len(credentials) != 6 {
		t.Errorf("credentials of %v", credentials)
	}
}
