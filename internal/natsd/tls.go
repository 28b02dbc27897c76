package natsd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

// TLS names the files, in PEM, with which a listener proves who it is.
type TLS struct {
	Cert, Key string
	// ClientCA, if set, has clients over TCP prove with a certificate of that authority
	// where they come from, besides the credential that says who they are. Browsers
	// are not asked.
	ClientCA string
}

// Config reads the files. Certificate and key are read once: start again to renew them.
func (t TLS) Config() (*tls.Config, error) {
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("%w: TLS needs both a certificate and its key", ErrConfig)
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: TLS: %w", ErrConfig, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func (t TLS) apply(o *server.Options) error {
	config, err := t.Config()
	if err != nil {
		return err
	}
	// A handshake over a slow mobile network takes longer than nats-server's 2 s.
	const handshake = 10
	o.TLS, o.TLSTimeout, o.TLSConfig = true, handshake, config
	o.Websocket.TLSConfig = config.Clone()
	if t.ClientCA == "" {
		return nil
	}
	file, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return fmt.Errorf("%w: TLS: %w", ErrConfig, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(file) {
		return fmt.Errorf("%w: TLS: no certificate in %s", ErrConfig, t.ClientCA)
	}
	o.TLSVerify, config.ClientCAs, config.ClientAuth = true, pool, tls.RequireAndVerifyClientCert
	return nil
}
