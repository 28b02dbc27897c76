package pseudonym

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "device.key")
	var loading sync.WaitGroup
	keys := make([]Key, 8)
	for n := range keys { // several processes start at the same time
		loading.Go(func() {
			var err error
			if keys[n], err = Load(path); err != nil {
				t.Error(err)
			}
		})
	}
	loading.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Error("two keys")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	k := keys[0]
	if name := k.Device("phone"); len(name) != 16 || name != k.Device("phone") || name == k.Device("laptop") || name == (Key{}).Device("phone") {
		t.Errorf("%q", name)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"open to others": {"00", 0o644}, "short": {"00", 0o600}, "no key": {"hello", 0o600}, "empty": {"", 0o600},
	} {
		path := filepath.Join(t.TempDir(), "device.key")
		if err := os.WriteFile(path, []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
