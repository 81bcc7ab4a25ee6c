package jwt_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// key signs tokens.
type key struct {
	id      string
	private crypto.Signer
	alg     jose.SignatureAlgorithm
}

func newKey(t *testing.T, id string) key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key{id, private, jose.ES256}
}

// jwks returns the public halves of keys.
func jwks(t *testing.T, keys ...key) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claims are what a token says.
type claims map[string]any

const (
	issuerName = "https://login.example.com"
	audience   = "fanoutd"
)

// good returns claims that are good for a minute, with some changed.
func good(change claims) claims {
	c := claims{"iss": issuerName, "aud": audience, "sub": "web", "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(c, change)
	return c
}

// token signs claims.
func (k key) token(t *testing.T, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: k.alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, (&jose.SignerOptions{}).WithType("JWT"))
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

// loginServer is an issuer of OpenID Connect, as far as that concerns us.
type loginServer struct {
	*httptest.Server

	mu     sync.Mutex
	keys   []byte // guarded by mu: what is served; nil: nothing
	at     string // guarded by mu: where the keys are, if not here
	served int    // guarded by mu: how often they were got
}

func startLogin(t *testing.T, keys []byte) *loginServer {
	t.Helper()
	s := &loginServer{keys: keys}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /realm/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := s.at
		if at == "" {
			at = s.URL + "/keys"
		}
		_ = json.NewEncoder(w).Encode(claims{"issuer": s.URL + "/realm", "jwks_uri": at})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.served++
		if s.keys == nil {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		_, _ = w.Write(s.keys)
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://login.example.com/keys", http.StatusFound)
	})
	s.Server = httptest.NewUnstartedServer(mux)
	return s
}

func (s *loginServer) set(keys []byte, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.at = keys, at
}

func (s *loginServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}
