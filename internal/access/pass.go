package access

import (
	"context"
	"crypto/x509"
	"errors"
	"time"
)

// Credentials are what a request shows of who makes it. Nothing in them is required.
type Credentials struct {
	// Certificate is the caller's, verified by TLS.
	Certificate *x509.Certificate

	// Bearer is the token of the Authorization header.
	Bearer string
}

// Pass is what credentials are worth.
type Pass struct {
	Identity

	// Expires is when it is worth nothing any more; zero: never.
	Expires time.Time

	// check asks whether what the pass was given for still holds; nil: it does.
	check func() error
}

// NewPass returns a pass for an identity that ends at a time, or never if that is
// zero, and for which check, unless it is nil, returns an error when what it was given
// for no longer holds.
func NewPass(i Identity, expires time.Time, check func() error) Pass {
	return Pass{Identity: i, Expires: expires, check: check}
}

// Check returns a [RefusedError] if the credentials would be refused now: because
// their time is over, or a token or key was removed since.
func (p *Pass) Check() error {
	if !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
		return ErrExpired
	}
	if p.check == nil {
		return nil
	}
	return p.check()
}

// RefusedError says that credentials are not good.
type RefusedError struct {
	// Message is for the caller. It repeats nothing of the credentials.
	Message string

	// Err is the cause, for the log; it may be nil.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

var (
	// ErrExpired refuses credentials whose time is over.
	ErrExpired error = &RefusedError{Message: "the credentials have expired"}

	// ErrUnavailable is for credentials that cannot be judged now, but maybe later.
	ErrUnavailable = errors.New("the keys of the issuer of JWTs are not known yet")
)

// Verifier judges JWTs.
type Verifier interface {
	// Verify returns a RefusedError, or ErrUnavailable.
	Verify(ctx context.Context, token string) (Pass, error)
}

// Authenticator says who shows credentials. Its fields are not changed once it is in
// use. It may be used by several goroutines at once.
type Authenticator struct {
	Tokens *Tokens  // nil: no token is good
	JWTs   Verifier // nil: no JWT is good
}

// Identify returns what credentials are worth: nothing, if there are none. Where a
// token is shown it alone counts, also beside a certificate: it is what the one who
// makes this request has, while a connection may be shared. Errors are a RefusedError,
// or ErrUnavailable.
func (a *Authenticator) Identify(ctx context.Context, c Credentials) (Pass, error) {
	switch {
	case c.Bearer != "":
		return a.ofBearer(ctx, c.Bearer)
	case c.Certificate != nil:
		return ofCertificate(c.Certificate)
	}
	return Pass{}, nil
}

func (a *Authenticator) ofBearer(ctx context.Context, token string) (Pass, error) {
	if a.Tokens != nil {
		if pass, ok := a.Tokens.find(token); ok {
			return pass, nil
		}
	}
	if a.JWTs != nil {
		return a.JWTs.Verify(ctx, token)
	}
	return Pass{}, errUnknownToken
}

var errUnknownToken error = &RefusedError{Message: "the token is not known here"}
