package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/reload"
)

// Config configures a [Verifier]. Issuer, Audience, NameClaim and Log are required.
type Config struct {
	// Issuer is the required value of the claim iss. Without KeysFile it is also the
	// address to fetch keys from, which must use https unless it is on this machine.
	Issuer string

	// Audience must be among the values of the claim aud.
	Audience string

	// KeysFile contains the issuer's public keys (JWKS). Empty: they are fetched from
	// the issuer.
	KeysFile string

	// CAFile contains the certificate authorities (PEM) for requests to the issuer.
	// Empty: the system's.
	CAFile string

	NameClaim   string // the claim with the caller's name, a string
	GroupsClaim string // the claim with its groups, a string or a list of strings; may be null or missing
	Log         *slog.Logger
}

// algorithms are all JWT algorithms with public keys.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// Verifier verifies JWTs. It implements [access.Verifier].
type Verifier struct {
	cfg    Config
	keys   atomic.Pointer[keySet] // nil before the first fetch
	issuer *issuer                // fetches the keys; nil: they come from a file
}

// Open returns a verifier. It reads the files of the configuration as some of files, which follows
// them. [Verifier.Run] fetches the keys of an issuer.
func Open(cfg Config, files *reload.Files) (*Verifier, error) {
	v := &Verifier{cfg: cfg}
	var err error
	if cfg.KeysFile != "" {
		err = files.Load(cfg.KeysFile, reload.Into(&v.keys, parseKeys))
	} else {
		v.issuer, err = newIssuer(cfg, &v.keys, files)
	}
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", cfg.Issuer, err)
	}
	return v, nil
}

// Run fetches the keys of the issuer until ctx is done, and calls changed after each change. It
// returns at once if the keys come from a file.
func (v *Verifier) Run(ctx context.Context, changed func()) {
	if v.issuer != nil {
		v.issuer.run(ctx, changed)
	}
}

// Verify implements [access.Verifier].
func (v *Verifier) Verify(ctx context.Context, token string) (access.Pass, error) {
	if strings.Count(token, ".") != 2 {
		return access.Pass{}, refused("unknown token", access.FaultUnknown, nil)
	}
	keys := v.keys.Load()
	verified, err := v.verify(ctx, token, keys)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); err != nil && !expired && v.issuer != nil {
		v.issuer.fetchNow(ctx)
		if fresh := v.keys.Load(); fresh != keys {
			verified, err = v.verify(ctx, token, fresh)
		}
	}
	if err != nil {
		return access.Pass{}, err
	}
	identity, err := v.identity(verified)
	if err != nil {
		return access.Pass{}, refused("the JWT does not identify its bearer", access.FaultClaims, err)
	}
	recheck := func() error {
		_, err := v.verify(context.Background(), token, v.keys.Load())
		return err
	}
	return access.Pass{Identity: identity, Expires: verified.Expiry, Recheck: recheck}, nil
}

// verify checks a token.
func (v *Verifier) verify(ctx context.Context, token string, keys *keySet) (*oidc.IDToken, error) {
	if keys == nil {
		return nil, access.ErrUnavailable
	}
	verifier := oidc.NewVerifier(v.cfg.Issuer, &keys.StaticKeySet, &oidc.Config{ClientID: v.cfg.Audience, SupportedSigningAlgs: algorithms})
	verified, err := verifier.Verify(ctx, token)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return nil, refused("the JWT has expired", access.FaultExpired, err)
	}
	if err != nil {
		return nil, refused("the JWT is not valid here", faultOf(err, token, keys), err)
	}
	if err := checkClaims(verified); err != nil {
		return nil, refused("the JWT is not valid here", access.FaultClaims, err)
	}
	if !verified.Expiry.After(time.Now()) {
		return nil, access.ErrExpired
	}
	return verified, nil
}

// numericClaims and otherClaims are the claims that the library reads. It accepts their
// names in any case, and numbers written as strings.
var (
	numericClaims = []string{"exp", "nbf", "iat"}
	otherClaims   = []string{"iss", "sub", "aud"}
)

// checkClaims returns an error if the library may have read other claims than those that
// RFC 7519 means: names are case-sensitive, and times are numbers.
func checkClaims(token *oidc.IDToken) error {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return fmt.Errorf("read the claims: %w", err)
	}
	for name := range claims {
		for _, known := range slices.Concat(numericClaims, otherClaims) {
			if name != known && strings.EqualFold(name, known) {
				return fmt.Errorf("the claim %q is written in the wrong case", known)
			}
		}
	}
	for _, name := range numericClaims {
		if value, ok := claims[name]; ok && (string(value) == "null" || json.Unmarshal(value, new(float64)) != nil) {
			return fmt.Errorf("the claim %q is not a number", name)
		}
	}
	return nil
}

func refused(message string, fault access.Fault, err error) error {
	return &access.RefusedError{Message: message, Fault: fault, Err: err}
}

// identity returns the identity of a token's bearer.
func (v *Verifier) identity(token *oidc.IDToken) (access.Identity, error) {
	id := access.Identity{Method: access.JWT}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return id, fmt.Errorf("read the claims: %w", err)
	}
	if err := json.Unmarshal(claims[v.cfg.NameClaim], &id.Name); err != nil {
		return id, fmt.Errorf("claim %q is missing or not a string", v.cfg.NameClaim)
	}
	if verified, ok := claims["email_verified"]; ok && v.cfg.NameClaim == "email" && string(verified) != "true" {
		return id, errors.New("the issuer has not verified the email address")
	}
	if groups, ok := claims[v.cfg.GroupsClaim]; ok && string(groups) != "null" {
		var one string
		if err := json.Unmarshal(groups, &one); err == nil {
			id.Groups = []string{one}
		} else if err := json.Unmarshal(groups, &id.Groups); err != nil {
			return id, fmt.Errorf("claim %q is neither a string nor a list of strings", v.cfg.GroupsClaim)
		}
	}
	return id, id.Validate()
}
