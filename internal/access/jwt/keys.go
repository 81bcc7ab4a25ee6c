package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// parseKeys returns the keys of a JWKS that tokens can be signed with. Others in it
// are for something else (RFC 7517, section 5, has readers ignore what they do not
// know).
func parseKeys(text []byte) (*oidc.StaticKeySet, error) {
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read as JWKS: %w", err)
	}
	set := &oidc.StaticKeySet{}
	for i, raw := range all.Keys {
		if isOfOtherCurve(raw) {
			continue
		}
		var key jose.JSONWebKey
		err := json.Unmarshal(raw, &key)
		if errors.Is(err, jose.ErrUnsupportedKeyType) || err == nil && key.Use == "enc" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if !key.IsPublic() {
			return nil, fmt.Errorf("key %d is not a public one: nobody but the issuer should have it", i+1)
		}
		if public, ok := usable(key.Key); ok {
			set.PublicKeys = append(set.PublicKeys, public)
		}
	}
	if len(set.PublicKeys) == 0 {
		return nil, errors.New("there is no key in it that signs tokens")
	}
	return set, nil
}

// isOfOtherCurve reports whether a key is of an elliptic curve with which no token is
// signed that could be good here, such as secp256k1. go-jose calls it an error.
func isOfOtherCurve(key []byte) bool {
	var of struct {
		Type  string `json:"kty"`
		Curve string `json:"crv"`
	}
	if json.Unmarshal(key, &of) != nil || of.Type != "EC" {
		return false
	}
	switch of.Curve {
	case "P-256", "P-384", "P-521":
		return false
	}
	return true
}

// usable returns a key if tokens can be signed with it.
func usable(key any) (crypto.PublicKey, bool) {
	switch key.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return key, true
	}
	return nil, false
}

// file has keys of a file.
type file struct {
	reload  *reload.File
	changed func() // of the goroutine of run; nil before
	current atomic.Pointer[oidc.StaticKeySet]
}

func openFile(path string, log *slog.Logger) (*file, error) {
	f := &file{}
	var err error
	f.reload, err = reload.Load(path, log, func(content []byte) error {
		set, err := parseKeys(content)
		if err != nil {
			return err
		}
		f.current.Store(set)
		if f.changed != nil {
			f.changed()
		}
		return nil
	})
	return f, err
}

func (f *file) run(ctx context.Context, changed func()) {
	f.changed = changed
	f.reload.Run(ctx)
}

func (f *file) keys() *oidc.StaticKeySet { return f.current.Load() }

func (f *file) newer(context.Context) bool { return false }
