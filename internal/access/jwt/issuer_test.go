package jwt_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/jwts"
)

const (
	issuerName = "https://login.example.com"
	audience   = "fanoutd"
)

// good returns claims that are valid for a minute, with the given changes.
func good(change jwts.Claims) jwts.Claims {
	c := jwts.Claims{"iss": issuerName, "aud": audience, "sub": "web", "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(c, change)
	return c
}

// loginServer is a minimal OpenID Connect issuer.
type loginServer struct {
	*httptest.Server

	mu     sync.Mutex
	keys   []byte // guarded by mu: the JWKS; nil: requests fail
	at     string // guarded by mu: the address of the keys, if not this server
	served int    // guarded by mu: how often the keys were fetched
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
		_ = json.NewEncoder(w).Encode(jwts.Claims{"issuer": s.URL + "/realm", "jwks_uri": at})
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
