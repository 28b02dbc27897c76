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

// Bearer reads the key that signs bearer tokens, or makes one if there is none. Of
// several that make one at a time all get the same.
func Bearer(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, fileBearer)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeBearer(dir); err != nil {
			return nil, fmt.Errorf("keydir: %w", err)
		}
	}
	key, err := readBearer(path)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("keydir: %w", err)
	}
	if err := putOnce(dir, fileBearerPublic, "PUBLIC KEY", der); err != nil {
		return nil, fmt.Errorf("keydir: %w", err)
	}
	return key, nil
}

func readBearer(path string) (ed25519.PrivateKey, error) {
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

func makeBearer(dir string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return putOnce(dir, fileBearer, "PRIVATE KEY", der)
}

// putOnce writes a file in PEM, whole, unless it is there.
func putOnce(dir, name, kind string, der []byte) error {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	scratch, err := os.MkdirTemp(dir, ".key-") // with mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	whole := filepath.Join(scratch, name)
	if err := writeFile(whole, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))); err != nil {
		return err
	}
	if err := os.Link(whole, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
