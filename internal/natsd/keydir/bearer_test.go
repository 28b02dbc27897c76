package keydir_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
)

func TestBearerKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, _, err := keydir.Open(dir); err != nil {
		t.Fatal(err)
	}
	made := make([]ed25519.PrivateKey, 8)
	var makers sync.WaitGroup
	for i := range made {
		makers.Go(func() {
			var err error
			if made[i], err = keydir.Bearer(dir); err != nil {
				t.Error(err)
			}
		})
	}
	makers.Wait()
	for _, key := range made {
		if !bytes.Equal(key, made[0]) {
			t.Error("two keys were made")
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "bearer.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if key, err := bearer.ParsePublicKey(public); err != nil || !key.Equal(made[0].Public()) {
		t.Errorf("%v, %v", key, err)
	}
	path := filepath.Join(dir, "bearer.pem")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".key-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := keydir.Read(dir); err != nil {
		t.Errorf("the keys beside it: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keydir.Bearer(dir); !errors.Is(err, keydir.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}
