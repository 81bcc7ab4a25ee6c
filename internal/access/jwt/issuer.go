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
	// refreshInterval is how often the keys are got anew. So long a key is good that
	// the issuer has withdrawn.
	refreshInterval = 5 * time.Minute

	// retryInterval is how often that is tried while it fails.
	retryInterval = 5 * time.Second

	// unknownPause is how long after it was done nobody can cause it to be done again
	// by showing a token that no key fits.
	unknownPause = 10 * time.Second

	// fetchTimeout bounds each request to the issuer.
	fetchTimeout = 5 * time.Second

	// maxKeysBytes bounds what is read of its answer.
	maxKeysBytes = 1 << 20
)

// issuer has the keys that an issuer serves.
type issuer struct {
	address   string
	log       *slog.Logger
	client    *http.Client
	transport atomic.Pointer[http.Transport]
	ca        *reload.File // nil: the system's authorities
	current   atomic.Pointer[oidc.StaticKeySet]
	wanted    chan struct{} // somebody waits
	ended     chan struct{} // closed when nobody gets keys any more

	text    []byte // of the current keys; of the goroutine of run
	trouble string // what was logged; of the goroutine of run

	mu      sync.Mutex
	tried   time.Time     // guarded by mu: when keys were got last, or should have been
	getting bool          // guarded by mu: that is under way
	done    chan struct{} // guarded by mu: closed when it was done the next time
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
			return errors.New("there is no certificate in it")
		}
		i.trust(pool)
		return nil
	})
	return i, err
}

// trust has the issuer's certificate be one of the given authorities; nil: the
// system's.
func (i *issuer) trust(authorities *x509.CertPool) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	t.DisableKeepAlives = true // once in minutes
	i.transport.Store(t)
}

// RoundTrip implements [http.RoundTripper]. What goes in plain text to another machine
// is refused: discovery or a redirect may have led there.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSafe(r.URL) {
		return nil, fmt.Errorf("%s is not asked for keys: it is neither https nor on this machine", r.URL.Redacted())
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

func (i *issuer) keys() *oidc.StaticKeySet { return i.current.Load() }

func (i *issuer) run(ctx context.Context, changed func()) {
	defer close(i.ended)
	var following sync.WaitGroup
	defer following.Wait()
	if i.ca != nil {
		following.Go(func() { i.ca.Run(ctx) })
	}
	for {
		wait := refreshInterval
		if !i.get(ctx, changed) {
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

// get gets the keys and reports whether it could.
func (i *issuer) get(ctx context.Context, changed func()) bool {
	i.mu.Lock()
	i.getting = true
	i.mu.Unlock()
	text, err := i.fetch(ctx)
	if err == nil && !bytes.Equal(text, i.text) {
		err = i.use(text, changed)
	}
	i.note(ctx, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.getting, i.tried = false, time.Now()
	close(i.done)
	i.done = make(chan struct{})
	// Who wanted them has been served.
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
	i.log.Info("keys of the issuer of JWTs are in use", "issuer", i.address, "keys", len(set.PublicKeys))
	changed()
	return nil
}

// note logs why the keys could not be got, once.
func (i *issuer) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		i.trouble = ""
	case ctx.Err() == nil && i.trouble != err.Error():
		i.trouble = err.Error()
		i.log.Error("the keys of the issuer of JWTs cannot be got, those that are known stay in use", "issuer", i.address, "error", err)
	}
}

// newer implements source.
func (i *issuer) newer(ctx context.Context) bool {
	i.mu.Lock()
	if !i.getting && time.Since(i.tried) < unknownPause {
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
