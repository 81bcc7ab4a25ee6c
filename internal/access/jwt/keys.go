package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// keySet has the keys of the issuer, and their ids.
type keySet struct {
	oidc.StaticKeySet
	ids map[string]bool
}

// parseKeys returns the signing keys of a JWKS. It ignores other keys, as RFC 7517,
// section 5, requires.
func parseKeys(text []byte) (*keySet, error) {
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("parse JWKS: %w", err)
	}
	set := &keySet{ids: map[string]bool{}}
	for i, raw := range all.Keys {
		if hasUnsupportedCurve(raw) {
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
			return nil, fmt.Errorf("key %d is a private key, which only the issuer should have", i+1)
		}
		if public, ok := usable(key.Key); ok {
			set.PublicKeys = append(set.PublicKeys, public)
			set.ids[key.KeyID] = true
		}
	}
	if len(set.PublicKeys) == 0 {
		return nil, errors.New("no signing key found")
	}
	return set, nil
}

// hasUnsupportedCurve reports whether a key has an elliptic curve of no supported
// algorithm, such as secp256k1. go-jose returns an error for such a key.
func hasUnsupportedCurve(key []byte) bool {
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

// usable returns the key, and whether tokens can be signed with its type.
func usable(key any) (crypto.PublicKey, bool) {
	switch key.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return key, true
	}
	return nil, false
}
