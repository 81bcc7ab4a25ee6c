// Package certificate is what the listeners show and whom they trust: a certificate
// with its key, and the authorities of the clients' certificates, all from files that
// may be replaced while the server runs.
//
// New connections get what the files have; the ones that are open stay as they are.
// grpc's own provider for such files (credentials/tls/certprovider/pemfile) is not
// used because it writes private keys that do not fit their certificate into the log.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// Config says where the files are. CertFile, KeyFile and Log are required.
type Config struct {
	CertFile string // PEM; the certificates that lead to the authority follow in it
	KeyFile  string // PEM

	// ClientCAFile has the authorities (PEM) of the certificates of clients. Without
	// it clients are asked for none.
	ClientCAFile string

	// ClientRequired refuses connections without a certificate. Otherwise one that is
	// shown has to be good.
	ClientRequired bool

	Log *slog.Logger
}

// Files is what the files have.
type Files struct {
	cfg         Config
	following   []*reload.File
	pair        atomic.Pointer[tls.Certificate]
	authorities atomic.Pointer[x509.CertPool] // nil: clients are asked for no certificate
}

// Load reads the files.
func Load(cfg Config) (*Files, error) {
	f := &Files{cfg: cfg}
	pair, err := reload.LoadAll([]string{cfg.CertFile, cfg.KeyFile}, cfg.Log, f.usePair)
	if err != nil {
		return nil, fmt.Errorf("certificate and key for TLS: %w", err)
	}
	f.following = []*reload.File{pair}
	if cfg.ClientCAFile == "" {
		return f, nil
	}
	authorities, err := reload.Load(cfg.ClientCAFile, cfg.Log, f.useAuthorities)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities of clients: %w", err)
	}
	f.following = append(f.following, authorities)
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

func (f *Files) useAuthorities(content []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return errors.New("there is no certificate in it")
	}
	f.authorities.Store(pool)
	return nil
}

// Shown returns the certificate that new connections are shown.
func (f *Files) Shown() *x509.Certificate { return f.pair.Load().Leaf }

// Run follows the files until ctx is done.
func (f *Files) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, file := range f.following {
		running.Go(func() { file.Run(ctx) })
	}
	running.Wait()
}

// TLS returns the configuration of a listener for the given protocols (ALPN). Each
// connection that begins gets what the files have then. Sessions are not resumed: a
// resumed one would rest on a certificate that was checked long ago.
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
