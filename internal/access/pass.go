package access

import (
	"context"
	"crypto/x509"
	"errors"
	"time"
)

// Credentials are the credentials of a request. All fields are optional.
type Credentials struct {
	// Certificate is the caller's certificate, verified by TLS.
	Certificate *x509.Certificate

	// Bearer is the token of the Authorization header.
	Bearer string
}

// Pass is the result of a successful authentication.
type Pass struct {
	Identity

	// Expires is when the credentials expire; zero means never.
	Expires time.Time

	// Recheck returns an error once the credentials have been revoked; nil means that
	// they cannot be.
	Recheck func() error
}

// Check returns a [RefusedError] if the credentials would be refused now, because they
// have expired or because their token or key was removed.
func (p *Pass) Check() error {
	if !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
		return ErrExpired
	}
	if p.Recheck == nil {
		return nil
	}
	return p.Recheck()
}

// RefusedError reports credentials that were refused.
type RefusedError struct {
	// Message is for the caller. It contains no part of the credentials.
	Message string

	// Fault is what is wrong, for the log.
	Fault Fault

	// Err is the cause, for the log. It may be nil.
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
	// ErrExpired refuses expired credentials.
	ErrExpired error = &RefusedError{Message: "the credentials have expired", Fault: FaultExpired}

	// ErrUnavailable means that credentials cannot be verified now. A retry may help.
	ErrUnavailable = errors.New("the keys of the issuer of JWTs are not known yet")
)

// Verifier verifies JWTs.
type Verifier interface {
	// Verify returns the pass for a token. The error is a [RefusedError] or
	// [ErrUnavailable].
	Verify(ctx context.Context, token string) (Pass, error)
}

// Authenticator authenticates callers. Its fields must not change once it is in use. It
// is safe for concurrent use.
type Authenticator struct {
	Tokens *Tokens  // nil: tokens of a file are refused
	JWTs   Verifier // nil: JWTs are refused
}

// Identify authenticates a caller. Without credentials it returns an anonymous pass. A
// token takes precedence over a certificate, even if it is invalid: the token belongs to
// this request, while callers may share a connection. The error is a [RefusedError] or
// [ErrUnavailable].
func (a *Authenticator) Identify(ctx context.Context, c Credentials) (Pass, error) {
	switch {
	case c.Bearer != "":
		return a.tokenPass(ctx, c.Bearer)
	case c.Certificate != nil:
		return certificatePass(c.Certificate)
	}
	return Pass{}, nil
}

func (a *Authenticator) tokenPass(ctx context.Context, token string) (Pass, error) {
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

var errUnknownToken error = &RefusedError{Message: "unknown token", Fault: FaultUnknown}
