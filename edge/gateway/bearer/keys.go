package bearer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// ParseSecret reads the file of a secret: every byte of it counts but for the ends of
// lines behind it.
func ParseSecret(file []byte) ([]byte, error) {
	secret := bytes.TrimRight(file, "\r\n")
	if block, _ := pem.Decode(file); block != nil {
		return nil, fmt.Errorf("%w: the secret is a %s in PEM, which others may know", ErrConfig, block.Type)
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("%w: a secret of %d bytes, it takes %d", ErrConfig, len(secret), minSecret)
	}
	return secret, nil
}

// ParsePublicKey reads an Ed25519 public key in PEM (PKIX).
func ParsePublicKey(file []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(file)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%w: not a public key in PEM", ErrConfig)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: a %T, not an Ed25519 public key; a JWK set may have other keys", ErrConfig, parsed)
	}
	return key, nil
}
