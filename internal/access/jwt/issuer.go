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
	"sync"
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

// issuer is a keySource that fetches the keys from the issuer.
type issuer struct {
	address   string
	log       *slog.Logger
	client    *http.Client
	transport atomic.Pointer[http.Transport]
	ca        *reload.File // nil: the system's authorities
	current   atomic.Pointer[keySet]
	wanted    chan struct{} // capacity 1: a request waits for the next fetch
	ended     chan struct{} // closed when Run has returned

	text      []byte // the current keys as fetched; owned by Run
	lastError string // the error that was logged last; owned by Run

	mu       sync.Mutex
	tried    time.Time     // guarded by mu: when the last fetch ended
	fetching bool          // guarded by mu: a fetch is in progress
	done     chan struct{} // guarded by mu: closed when the next fetch ends
}

func newIssuer(cfg Config) (*issuer, error) {
	i := &issuer{
		address: cfg.Issuer, log: cfg.Log,
		wanted: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{}),
	}
	i.client = &http.Client{Transport: i, Timeout: fetchTimeout}
	i.trust(nil)
	if cfg.CAFile == "" {
		return i, nil
	}
	var err error
	i.ca, err = reload.Load(cfg.CAFile, cfg.Log, func(content []byte) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return errors.New("no certificate found")
		}
		i.trust(pool)
		return nil
	})
	return i, err
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

// Get implements keySource.
func (i *issuer) Get() *keySet { return i.current.Load() }

// Run implements keySource.
func (i *issuer) Run(ctx context.Context, changed func()) {
	defer close(i.ended)
	var following sync.WaitGroup
	defer following.Wait()
	if i.ca != nil {
		following.Go(func() { i.ca.Run(ctx) })
	}
	for {
		wait := refreshInterval
		if !i.refresh(ctx, changed) {
			wait = retryInterval
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-i.wanted:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Check implements keySource.
func (i *issuer) Check(ctx context.Context) {
	if i.ca != nil {
		i.ca.Check(ctx)
	}
}

// refresh fetches the keys and reports whether that succeeded.
func (i *issuer) refresh(ctx context.Context, changed func()) bool {
	i.mu.Lock()
	i.fetching = true
	i.mu.Unlock()
	text, err := i.fetch(ctx)
	if err == nil && !bytes.Equal(text, i.text) {
		err = i.use(text, changed)
	}
	i.logError(ctx, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetching, i.tried = false, time.Now()
	close(i.done)
	i.done = make(chan struct{})
	// This fetch has served all waiting requests.
	select {
	case <-i.wanted:
	default:
	}
	return err == nil
}

func (i *issuer) use(text []byte, changed func()) error {
	set, err := parseKeys(text)
	if err != nil {
		return err
	}
	i.text = text
	i.current.Store(set)
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

// fetchNow implements keySource.
func (i *issuer) fetchNow(ctx context.Context) bool {
	i.mu.Lock()
	if !i.fetching && time.Since(i.tried) < unknownPause {
		i.mu.Unlock()
		return false
	}
	done := i.done
	select {
	case i.wanted <- struct{}{}:
	default:
	}
	i.mu.Unlock()
	select {
	case <-done:
		return true
	case <-i.ended:
	case <-ctx.Done():
	}
	return false
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
