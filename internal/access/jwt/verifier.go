// Package jwt judges JSON Web Tokens: those of one issuer, for one audience, signed
// with a key that a file has or that the issuer serves (OpenID Connect discovery).
//
// Verifying waits for nobody as a rule: keys are in memory, and somebody else keeps
// them up to date. Signatures and claims are checked by go-oidc, keys are read by
// go-jose.
package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/fanoutd/fanoutd/internal/access"
)

// Config says which tokens are good. Issuer, Audience, NameClaim and Log are required.
type Config struct {
	Issuer   string // claim iss; without KeysFile its address, which begins with https unless it is on this machine
	Audience string // in claim aud

	// KeysFile has the public keys (JWKS) of the issuer. Without it they are got from
	// the issuer.
	KeysFile string

	// CAFile has the certificate authorities (PEM) of the issuer's address. Without it
	// they are the system's.
	CAFile string

	NameClaim   string // a text: what the caller is called
	GroupsClaim string // a text or a list of them; it may be null or missing
	Log         *slog.Logger
}

// algorithms are all that rest on a public key.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// source is where keys come from.
type source interface {
	// run keeps the keys up to date until ctx is done, and calls changed after each
	// change.
	run(ctx context.Context, changed func())

	// keys returns the keys there are; nil: none are known yet.
	keys() *oidc.StaticKeySet

	// newer returns after the keys were got anew, or false where that is of no use.
	newer(ctx context.Context) bool
}

// Verifier judges tokens. It implements [access.Verifier].
type Verifier struct {
	cfg    Config
	source source
}

// Open returns a verifier. Files are read at once; an issuer is asked by Run.
func Open(cfg Config) (*Verifier, error) {
	v := &Verifier{cfg: cfg}
	var err error
	if cfg.KeysFile != "" {
		v.source, err = openFile(cfg.KeysFile, cfg.Log)
	} else {
		v.source, err = newIssuer(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", cfg.Issuer, err)
	}
	return v, nil
}

// Run keeps the keys up to date until ctx is done, and calls changed after each change.
func (v *Verifier) Run(ctx context.Context, changed func()) { v.source.run(ctx, changed) }

// Verify implements [access.Verifier].
func (v *Verifier) Verify(ctx context.Context, token string) (access.Pass, error) {
	if strings.Count(token, ".") != 2 {
		return access.Pass{}, refused("the token is not known here", nil)
	}
	verified, err := v.verify(ctx, token)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); err != nil && !expired && v.source.newer(ctx) {
		verified, err = v.verify(ctx, token)
	}
	if err != nil {
		return access.Pass{}, err
	}
	identity, err := v.identity(verified)
	if err != nil {
		return access.Pass{}, refused("the JWT does not say who its bearer is", err)
	}
	still := func() error {
		_, err := v.verify(context.Background(), token)
		return err
	}
	return access.NewPass(identity, verified.Expiry, still), nil
}

// verify checks a token with the keys there are.
func (v *Verifier) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	keys := v.source.keys()
	if keys == nil {
		return nil, access.ErrUnavailable
	}
	verifier := oidc.NewVerifier(v.cfg.Issuer, keys, &oidc.Config{ClientID: v.cfg.Audience, SupportedSigningAlgs: algorithms})
	verified, err := verifier.Verify(ctx, token)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return nil, refused("the JWT has expired", err)
	}
	if err != nil {
		return nil, refused("the JWT is not good here", err)
	}
	if !verified.Expiry.After(time.Now()) {
		return nil, access.ErrExpired
	}
	return verified, nil
}

func refused(message string, err error) error {
	return &access.RefusedError{Message: message, Err: err}
}

// identity returns who the bearer of a token is.
func (v *Verifier) identity(token *oidc.IDToken) (access.Identity, error) {
	id := access.Identity{Method: access.JWT}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return id, fmt.Errorf("read the claims: %w", err)
	}
	if err := json.Unmarshal(claims[v.cfg.NameClaim], &id.Name); err != nil {
		return id, fmt.Errorf("claim %q is missing or not a text", v.cfg.NameClaim)
	}
	if verified, ok := claims["email_verified"]; ok && v.cfg.NameClaim == "email" && string(verified) != "true" {
		return id, errors.New("the issuer has not verified the email address")
	}
	if groups, ok := claims[v.cfg.GroupsClaim]; ok && string(groups) != "null" {
		var one string
		if err := json.Unmarshal(groups, &one); err == nil {
			id.Groups = []string{one}
		} else if err := json.Unmarshal(groups, &id.Groups); err != nil {
			return id, fmt.Errorf("claim %q is neither a text nor a list of them", v.cfg.GroupsClaim)
		}
	}
	return id, id.Validate()
}
