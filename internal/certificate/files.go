// Package certificate provides the TLS configuration of the listeners from files: a
// certificate with its key, and the authorities of client certificates. The files may be
// replaced while the server runs.
//
// [Load] reads the files, and [Files.TLS] returns the configuration. New connections use the present files; open connections stay as they
// are.
//
// The provider of grpc-go for such files (credentials/tls/certprovider/pemfile) is not
// used, because it logs private keys that do not match their certificate.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// Config names the files. CertFile, KeyFile and Log are required.
type Config struct {
	CertFile string // PEM, with intermediate certificates appended
	KeyFile  string // PEM

	// ClientCAFile has the authorities (PEM) of client certificates. If it is empty,
	// clients are not asked for a certificate.
	ClientCAFile string

	// ClientRequired refuses connections without a client certificate. If it is false,
	// the certificate is optional but must be valid if there is one.
	ClientRequired bool

	Log *slog.Logger
}

// Files holds the present contents of the files.
type Files struct {
	cfg         Config
	pair        atomic.Pointer[tls.Certificate]
	authorities atomic.Pointer[x509.CertPool] // nil: clients are not asked for a certificate
}

// Load reads the files as some of files, which follows them.
func Load(cfg Config, files *reload.Files) (*Files, error) {
	f := &Files{cfg: cfg}
	if err := files.LoadAll([]string{cfg.CertFile, cfg.KeyFile}, f.usePair); err != nil {
		return nil, fmt.Errorf("certificate and key for TLS: %w", err)
	}
	if cfg.ClientCAFile != "" {
		if err := files.Load(cfg.ClientCAFile, reload.Into(&f.authorities, Authorities)); err != nil {
			return nil, fmt.Errorf("certificate authorities of clients: %w", err)
		}
	}
	return f, nil
}

func (f *Files) usePair(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		f.cfg.Log.Warn("the certificate has expired, clients will refuse it", "file", f.cfg.CertFile, "expired", end)
	}
	f.pair.Store(&pair)
	return nil
}

// Authorities parses a file of certificate authorities (PEM).
func Authorities(content []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("the file contains no certificate")
	}
	return pool, nil
}

// Leaf returns the server certificate of new connections. Without files there is none.
func (f *Files) Leaf() *x509.Certificate {
	if f == nil {
		return nil
	}
	return f.pair.Load().Leaf
}

// TLS returns the configuration of a listener for the given protocols (ALPN). Each new
// connection uses the present files. Sessions are not resumed: a resumed session would
// rely on a client certificate that was verified long ago.
func (f *Files) TLS(protocols ...string) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, SessionTicketsDisabled: true}
	listener := base.Clone()
	listener.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.Certificates = []tls.Certificate{*f.pair.Load()}
		if c.ClientCAs = f.authorities.Load(); c.ClientCAs != nil {
			c.ClientAuth = tls.VerifyClientCertIfGiven
			if f.cfg.ClientRequired {
				c.ClientAuth = tls.RequireAndVerifyClientCert
			}
		}
		return c, nil
	}
	return listener
}
