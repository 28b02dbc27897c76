package keydir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/subjects/identity"
)

// Errors of this package, wrapped with the file and the reason.
var (
	ErrMissing = errors.New("keydir: no keys")
	ErrOpen    = errors.New("keydir: others can read the keys")
	ErrDamaged = errors.New("keydir: damaged")
)

// Names in the directory.
const (
	fileOperator = "operator.nk"
	fileSystem   = "system.nk"
	fileAccount  = "account.nk"
	dirRoles     = "roles"
)

func roleFile(role identity.Role) string { return filepath.Join(dirRoles, string(role)+".json") }

// Open reads the keys, or makes them if there are none. made says which. Keys of a release that
// did not know a role get one for it.
func Open(dir string) (a *identity.Authority, made bool, err error) {
	if err := Complete(dir); err != nil {
		return nil, false, err
	}
	a, err = Read(dir)
	if !errors.Is(err, ErrMissing) {
		return a, false, err
	}
	if a, err = identity.Generate(); err != nil {
		return nil, false, err
	}
	return a, true, Write(dir, a)
}

// Complete makes the keys of roles that came later than those that are there. Nobody's credential
// was ever signed with them. What else may be wrong is left to [Read].
func Complete(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, fileAccount)); err != nil {
		return nil
	}
	for _, role := range identity.Later {
		if !missing(dir, role) {
			continue
		}
		old, err := readRole(filepath.Join(dir, roleFile(identity.Operator)), identity.Operator)
		if err != nil {
			return err
		}
		fresh, err := identity.Generate()
		if err != nil {
			return err
		}
		key := fresh.SigningKey(role)
		key.Account = old.Account
		if err := put(dir, key); err != nil {
			return err
		}
	}
	return nil
}

func missing(dir string, role identity.Role) bool {
	_, err := os.Stat(filepath.Join(dir, roleFile(role)))
	return errors.Is(err, fs.ErrNotExist)
}

// Write keeps the keys in a directory that must not hold any.
func Write(dir string, a *identity.Authority) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), ".keys-") // with mode 0700
	if err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	defer os.RemoveAll(scratch)
	if err := writeAll(scratch, a); err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	// An empty directory may be in the way; a rename puts up with that, except on Windows.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keydir: %s is in the way: %w", dir, err)
	}
	if err := os.Rename(scratch, dir); err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	return nil
}

// Replace keeps the key of a role of an authority in the place of the one before.
func Replace(dir string, a *identity.Authority, role identity.Role) error {
	return put(dir, a.SigningKey(role))
}

// put writes the key of a role so that it is there whole, or the one before.
func put(dir string, key identity.SigningKey) error {
	b, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	path := filepath.Join(dir, roleFile(key.Role))
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
		return fmt.Errorf("keydir: %w", err)
	}
	if err := writeFile(path+".new", string(b)+"\n"); err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	return nil
}

func writeAll(dir string, a *identity.Authority) error {
	seeds := a.Seeds()
	if err := os.Mkdir(filepath.Join(dir, dirRoles), 0o700); err != nil {
		return err
	}
	files := map[string]string{fileOperator: seeds.Operator, fileSystem: seeds.System, fileAccount: seeds.Account}
	for _, role := range identity.Roles {
		b, err := json.Marshal(a.SigningKey(role))
		if err != nil {
			return err
		}
		files[roleFile(role)] = string(b)
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := writeFile(filepath.Join(dir, name), text+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a secret down to the disk; a key that is lost with the power locks
// everybody out.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// Read reads the keys. It fails with [ErrMissing] if there are none at all.
func Read(dir string) (*identity.Authority, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrMissing, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("keydir: %w", err)
	}
	if err := check(dir); err != nil {
		return nil, err
	}
	if err := check(filepath.Join(dir, dirRoles)); err != nil {
		return nil, err
	}
	seeds := identity.Seeds{Roles: make(map[identity.Role]string, len(identity.Roles))}
	for _, f := range []struct {
		name     string
		seed     *string
		optional bool
	}{{fileOperator, &seeds.Operator, true}, {fileSystem, &seeds.System, true}, {fileAccount, &seeds.Account, false}} {
		text, err := readFile(filepath.Join(dir, f.name))
		if err != nil && !(f.optional && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		*f.seed = strings.TrimSpace(string(text))
	}
	for _, role := range identity.Roles {
		if slices.Contains(identity.Later[:], role) && missing(dir, role) {
			return nil, fmt.Errorf("%w: %s has no key for the role %s, which is new; `rollcall up` and `rollcall init` make one", ErrDamaged, dir, role)
		}
		key, err := readRole(filepath.Join(dir, roleFile(role)), role)
		if err != nil {
			return nil, err
		}
		seeds.Roles[role] = key.Seed
	}
	a, err := identity.NewAuthority(seeds)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	return a, checkAccounts(dir, a)
}

func readRole(path string, role identity.Role) (identity.SigningKey, error) {
	text, err := readFile(path)
	if err != nil {
		return identity.SigningKey{}, err
	}
	key, err := identity.ParseSigningKey(text)
	if err != nil {
		return key, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if key.Role != role {
		return key, fmt.Errorf("%w: %s holds the key of the role %s", ErrDamaged, path, key.Role)
	}
	return key, nil
}

// checkAccounts finds signing keys that belong to another account.
func checkAccounts(dir string, a *identity.Authority) error {
	for _, role := range identity.Roles {
		path := filepath.Join(dir, roleFile(role))
		key, err := readRole(path, role)
		if err != nil {
			return err
		}
		if key.Account != a.Account() {
			return fmt.Errorf("%w: %s is for account %s, and %s is that of %s", ErrDamaged, path, key.Account, fileAccount, a.Account())
		}
	}
	return nil
}

// readFile reads a secret that only its owner can read. A file that is missing while
// others are there is damage: it must not be made anew.
func readFile(path string) ([]byte, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keydir: %w", err)
	}
	return b, nil
}

func check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w; put the missing file back, or move the directory away to make new keys, which nobody's credentials fit", ErrDamaged, err)
	}
	const others = 0o077
	if runtime.GOOS != "windows" && info.Mode().Perm()&others != 0 { // whose modes say nothing
		return fmt.Errorf("%w: %s has mode %04o; `chmod go= %s`", ErrOpen, path, info.Mode().Perm(), path)
	}
	return nil
}
