package keydir

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The key that signs bearer tokens for gateways, and the one that verifies them, in PEM, so
// that every library for JWTs can use them.
const (
	fileBearer       = "bearer.pem"
	fileBearerPublic = "bearer.pub.pem"
)

// Bearer reads the key that signs bearer tokens, or makes one if there is none.
func Bearer(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, fileBearer)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeBearer(dir); err != nil {
			return nil, err
		}
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%w: %s is not PEM", ErrDamaged, path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is no private key", ErrDamaged, path) // the reason could quote it
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not an Ed25519 key", ErrDamaged, path)
	}
	return key, nil
}

// makeBearer writes both keys, the public one first: where the private one is, the other
// is too.
func makeBearer(dir string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("keydir: %w", err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{fileBearerPublic, "PUBLIC KEY", der}, {fileBearer, "PRIVATE KEY", secret}} {
		path := filepath.Join(dir, f.name)
		if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
			return fmt.Errorf("keydir: %w", err)
		}
		if err := writeFile(path+".new", string(pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}))); err != nil {
			return fmt.Errorf("keydir: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("keydir: %w", err)
		}
	}
	return nil
}
