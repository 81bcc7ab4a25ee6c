package jwt

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/fanoutd/fanoutd/internal/reload"
)

const (
	// refreshInterval is the time between two fetches of the keys. A key that the
	// issuer has withdrawn stays valid for at most this long.
	refreshInterval = 5 * time.Minute

	// retryInterval is the time between two fetches while they fail.
	retryInterval = 5 * time.Second

	// unknownPause is the minimum time between two fetches that tokens with unknown
	// keys can cause.
	unknownPause = 10 * time.Second

	// fetchTimeout bounds each request to the issuer.
	fetchTimeout = 5 * time.Second

	// maxKeysBytes bounds the size of the issuer's answer.
	maxKeysBytes = 1 << 20
)

// issuer fetches the keys from the issuer.
type issuer struct {
	address   string
	log       *slog.Logger
	client    *http.Client
	transport atomic.Pointer[http.Transport]
	keys      *atomic.Pointer[keySet]
	requests  chan chan struct{} // of fetchNow; run closes the received channel when the keys are fresh
	ended     chan struct{}      // closed when run has returned
	pause     atomic.Int64       // unknownPause; tests change it

	text      []byte // the current keys as fetched; owned by run
	lastError string // the error that was logged last; owned by run
}

func newIssuer(cfg Config, keys *atomic.Pointer[keySet], files *reload.Files) (*issuer, error) {
	i := &issuer{
		address: cfg.Issuer, log: cfg.Log, keys: keys,
		requests: make(chan chan struct{}), ended: make(chan struct{}),
	}
	i.pause.Store(int64(unknownPause))
	i.client = &http.Client{Transport: i, Timeout: fetchTimeout}
	i.trust(nil)
	if cfg.CAFile == "" {
		return i, nil
	}
	return i, files.Load(cfg.CAFile, func(content []byte) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return errors.New("no certificate found")
		}
		i.trust(pool)
		return nil
	})
}

// trust sets the certificate authorities of the issuer; nil means the system's.
func (i *issuer) trust(authorities *x509.CertPool) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	t.DisableKeepAlives = true // requests are minutes apart
	i.transport.Store(t)
}

// RoundTrip implements [http.RoundTripper]. It refuses plain-text requests to other
// machines, to which discovery or a redirect may lead.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSafe(r.URL) {
		return nil, fmt.Errorf("refuse to fetch keys from %s: it is neither https nor on this machine", r.URL.Redacted())
	}
	return i.transport.Load().RoundTrip(r)
}

func isSafe(u *url.URL) bool {
	if u.Scheme == "https" || u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}

func (i *issuer) run(ctx context.Context, changed func()) {
	defer close(i.ended)
	var request chan struct{} // which the next fetch answers; nil: none
	for ctx.Err() == nil {
		wait := refreshInterval
		if !i.refresh(ctx, changed) {
			wait = retryInterval
		}
		if request != nil {
			close(request)
		}
		request = i.await(ctx, wait)
	}
}

// await returns after the time, or with a request that needs a fetch. It answers requests as long as the
// last fetch is recent.
func (i *issuer) await(ctx context.Context, d time.Duration) (request chan struct{}) {
	fetched, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case request := <-i.requests:
			if time.Since(fetched) >= time.Duration(i.pause.Load()) {
				return request
			}
			close(request)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// refresh fetches the keys and reports whether that succeeded.
func (i *issuer) refresh(ctx context.Context, changed func()) bool {
	text, err := i.fetch(ctx)
	if err == nil && !bytes.Equal(text, i.text) {
		err = i.use(text, changed)
	}
	i.logError(ctx, err)
	return err == nil
}

func (i *issuer) use(text []byte, changed func()) error {
	set, err := parseKeys(text)
	if err != nil {
		return err
	}
	i.text = text
	i.keys.Store(set)
	i.log.Info("loaded the keys of the JWT issuer", "issuer", i.address, "keys", len(set.PublicKeys))
	changed()
	return nil
}

// logError logs why the keys could not be fetched, unless it just logged the same.
func (i *issuer) logError(ctx context.Context, err error) {
	switch {
	case err == nil:
		i.lastError = ""
	case ctx.Err() == nil && i.lastError != err.Error():
		i.lastError = err.Error()
		i.log.Error("cannot fetch the keys of the JWT issuer, known keys stay in use", "issuer", i.address, "error", err)
	}
}

// fetchNow fetches the keys, unless the last fetch is recent. It returns when that has ended, or when
// ctx or run ends.
func (i *issuer) fetchNow(ctx context.Context) {
	done := make(chan struct{})
	select {
	case i.requests <- done:
	case <-i.ended:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-i.ended:
	case <-ctx.Done():
	}
}

// fetch returns the JWKS of the issuer.
func (i *issuer) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.address)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	var claims struct {
		URL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&claims); err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, claims.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	resp, err := i.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get keys from %s: %s", req.URL.Redacted(), resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeysBytes))
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	return text, nil
}
