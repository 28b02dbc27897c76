// Package pseudonym replaces device ids by names that say nothing to those who lack the
// key, and the same to everybody who has it.
//
// A pseudonym is 80 bits of an HMAC-SHA-256: the same device has the same one in every
// import under one key, and without the key nobody can try ids until one fits. Losing the
// key loses nothing that is stored; but what is imported afterwards has other names, so
// the key belongs into the backup of its data directory, and nowhere else.
package pseudonym

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrKey is a key file that cannot be used; the wrapping says why.
var ErrKey = errors.New("pseudonym: unusable key file")

const keySize = 32

// A Key makes pseudonyms. It is safe for concurrent use.
type Key [keySize]byte

// Load reads the key of a file, which is made if missing and which only its owner may read.
func Load(path string) (Key, error) {
	k, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return k, fmt.Errorf("pseudonym: %w", err)
	}
	return read(path) // perhaps somebody else's, made at the same time
}

// create makes the file whole or not at all.
func create(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".device-key-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	secret := make([]byte, keySize)
	rand.Read(secret)
	_, err = fmt.Fprintln(file, hex.EncodeToString(secret))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}

func read(path string) (k Key, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return k, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return k, fmt.Errorf("%w: others can read %s; chmod 600 it", ErrKey, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, fmt.Errorf("pseudonym: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != keySize {
		return k, fmt.Errorf("%w: %s does not hold %d bytes in hexadecimal", ErrKey, path, keySize)
	}
	return Key(raw), nil
}

// Device is the pseudonym of a device id.
func (k Key) Device(id string) string {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(id))
	return strings.ToLower(base32.StdEncoding.EncodeToString(m.Sum(nil)[:10]))
}
