package keydir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func open(t *testing.T, dir string) (*identity.Authority, bool) {
	t.Helper()
	a, made, err := keydir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a, made
}

func TestKeysAreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "keys")
	first, made := open(t, dir)
	if !made {
		t.Error("the first time they were not made")
	}
	again, made := open(t, dir)
	if made || !reflect.DeepEqual(first.Seeds(), again.Seeds()) {
		t.Error("the second time they were others")
	}
	if err := keydir.Write(dir, again); err == nil {
		t.Error("keys were overwritten")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("beside them: %v, %v", left, err)
	}
}

func TestOnlyTheOwnerCanRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	open(t, dir)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil || files != 3+len(identity.Roles) {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestModesThatAreTooOpenAreRefused(t *testing.T) {
	for _, name := range []string{".", "operator.nk", "account.nk", "roles", "roles/viewer.json"} {
		dir := filepath.Join(t.TempDir(), "keys")
		open(t, dir)
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o750); err != nil {
			t.Fatal(err)
		}
		if _, _, err := keydir.Open(dir); !errors.Is(err, keydir.ErrOpen) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamageIsNamedAndNothingIsMadeAnew(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	open(t, other)
	foreign, err := os.ReadFile(filepath.Join(other, "roles", "edge.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(path string) error{
		"missing":   os.Remove,
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"text":      func(path string) error { return os.WriteFile(path, []byte("SUSECRET"), 0o600) },
		"a foreign": func(path string) error { return os.WriteFile(path, foreign, 0o600) },
	} {
		for _, file := range []string{"account.nk", "roles/edge.json", "roles/viewer.json"} {
			dir := filepath.Join(t.TempDir(), "keys")
			open(t, dir)
			if err := damage(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			_, _, err := keydir.Open(dir)
			if !errors.Is(err, keydir.ErrDamaged) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s %s: %v", name, file, err)
			}
			if err != nil && strings.Contains(err.Error(), "SUSECRET") {
				t.Errorf("%s %s: a secret is in the message: %v", name, file, err)
			}
		}
	}
}

// A directory of a release that did not know a role gets a key for it, of the same account, and
// keeps the others.
func TestKeysOfAnOlderRelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	before, _ := open(t, dir)
	for _, role := range identity.Later {
		if err := os.Remove(filepath.Join(dir, "roles", string(role)+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keydir.Read(dir); !errors.Is(err, keydir.ErrDamaged) || !strings.Contains(err.Error(), "rollcall init") {
		t.Errorf("read before: %v", err)
	}
	after, _ := open(t, dir)
	for _, role := range identity.Roles {
		later := slices.Contains(identity.Later[:], role)
		if same := before.SigningKey(role) == after.SigningKey(role); same == later {
			t.Errorf("%s: the same key: %v", role, same)
		}
	}
	if again, _ := open(t, dir); again.SigningKey(identity.Worker) != after.SigningKey(identity.Worker) {
		t.Error("made twice")
	}
}

// Under another operator the directory has no key of it, and mints all the same.
func TestWithoutOperator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	a, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	seeds := a.Seeds()
	seeds.Operator, seeds.System = "", ""
	if a, err = identity.NewAuthority(seeds); err != nil {
		t.Fatal(err)
	}
	if err := keydir.Write(dir, a); err != nil {
		t.Fatal(err)
	}
	again, made := open(t, dir)
	if made || again.System() != "" {
		t.Error("an operator was made")
	}
	if _, err := again.OperatorJWT(); !errors.Is(err, identity.ErrKey) {
		t.Errorf("its token: %v", err)
	}
}

func TestNoKeys(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nothing")} {
		if _, err := keydir.Read(dir); !errors.Is(err, keydir.ErrMissing) {
			t.Errorf("%v", err)
		}
	}
}

func TestReplaceOneKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	before, _ := open(t, dir)
	rotated, err := before.Rotate(identity.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "roles", "viewer.json.new"), nil, 0o600); err != nil { // a crash left it
		t.Fatal(err)
	}
	if err := keydir.Replace(dir, rotated, identity.Viewer); err != nil {
		t.Fatal(err)
	}
	after, made := open(t, dir)
	if made || !reflect.DeepEqual(after.Seeds(), rotated.Seeds()) || reflect.DeepEqual(after.Seeds(), before.Seeds()) {
		t.Error("not the rotated keys")
	}
}
