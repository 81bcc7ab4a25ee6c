// Package jwts creates JWTs, and the keys that verify them, for tests.
package jwts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Key signs JWTs.
type Key struct {
	ID        string
	Private   crypto.Signer
	Algorithm jose.SignatureAlgorithm
}

// NewKey returns a new key for ES256.
func NewKey(t testing.TB, id string) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, private, jose.ES256}
}

// Set returns the public keys in the format of an issuer (JWKS).
func Set(t testing.TB, keys ...Key) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Private.Public(), KeyID: k.ID, Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Claims are the claims of a JWT.
type Claims map[string]any

// Sign returns a signed JWT.
func (k Key) Sign(t testing.TB, c Claims) string {
	t.Helper()
	key := jose.SigningKey{Algorithm: k.Algorithm, Key: jose.JSONWebKey{Key: k.Private, KeyID: k.ID}}
	return SignWith(t, key, c)
}

// SignWith returns a JWT that is signed with any kind of key.
func SignWith(t testing.TB, key jose.SigningKey, c Claims) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
