package jwt_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/jwt"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/jwts"
	"github.com/fanoutd/fanoutd/test/logs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings returns the configuration of a verifier with its keys in a file.
func settings(t *testing.T, keys []byte) jwt.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	certs.Write(t, path, keys)
	return jwt.Config{
		Issuer: issuerName, Audience: audience, KeysFile: path, NameClaim: "sub", GroupsClaim: "groups",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// verifier is a verifier with the files that it reads.
type verifier struct {
	*jwt.Verifier
	files *reload.Files
}

func open(t *testing.T, cfg jwt.Config) verifier {
	t.Helper()
	files := reload.New(cfg.Log)
	v, err := jwt.Open(cfg, files)
	if err != nil {
		t.Fatal(err)
	}
	return verifier{v, files}
}

// run runs a verifier until the test ends. The channel receives a value after each
// change.
func run(t *testing.T, v verifier) (changes chan struct{}) {
	t.Helper()
	changes = make(chan struct{}, 100)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	changed := func() { changes <- struct{}{} }
	running.Go(func() { v.files.Run(ctx, changed) })
	running.Go(func() { v.Run(ctx, changed) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return changes
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if _, ok := errors.AsType[*access.RefusedError](err); !ok {
		t.Errorf("%s: got %v, want a refusal", what, err)
	}
}

func TestVerifyAcceptsEveryAlgorithm(t *testing.T) {
	ec := jwts.NewKey(t, "ec")
	_, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPrivate, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ed := jwts.Key{ID: "ed", Private: edPrivate, Algorithm: jose.EdDSA}
	rs, ps := jwts.Key{ID: "rs", Private: rsaPrivate, Algorithm: jose.RS256}, jwts.Key{ID: "rs", Private: rsaPrivate, Algorithm: jose.PS512}
	cfg := settings(t, jwts.Set(t, ec, ed, rs))
	v := open(t, cfg)
	for _, k := range []jwts.Key{ec, ed, rs, ps} {
		c := good(jwts.Claims{"groups": []string{"a", "b"}, "aud": []string{"other", audience}})
		pass, err := v.Verify(t.Context(), k.Sign(t, c))
		if err != nil || pass.Check() != nil {
			t.Fatal(k.Algorithm, err, pass.Check())
		}
		want := access.Identity{Name: "web", Groups: []string{"a", "b"}, Method: access.JWT}
		if diff := cmp.Diff(want, pass.Identity); diff != "" || pass.Expires.Unix() != c["exp"] {
			t.Errorf("%s: until %v:\n%s", k.Algorithm, pass.Expires, diff)
		}
	}
	cfg.NameClaim, cfg.GroupsClaim = "email", "role"
	v = open(t, cfg)
	pass, err := v.Verify(t.Context(), ec.Sign(t, good(jwts.Claims{"email": "a@example.com", "email_verified": true, "role": "ops"})))
	if diff := cmp.Diff(access.Identity{Name: "a@example.com", Groups: []string{"ops"}, Method: access.JWT}, pass.Identity); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = v.Verify(t.Context(), ec.Sign(t, good(jwts.Claims{"email": "a@example.com", "email_verified": false})))
	wantRefused(t, "an email address that nobody has verified", err)
}

// An issuer can express the lack of groups in three ways.
func TestGroupsAreOptional(t *testing.T) {
	known := jwts.NewKey(t, "k")
	v := open(t, settings(t, jwts.Set(t, known)))
	for _, change := range []jwts.Claims{nil, {"groups": nil}, {"groups": []string{}}} {
		pass, err := v.Verify(t.Context(), known.Sign(t, good(change)))
		if err != nil || pass.Name != "web" || len(pass.Groups) > 0 {
			t.Errorf("%v: %+v, %v", change, pass.Identity, err)
		}
	}
}

func TestVerifyRefusesInvalidTokens(t *testing.T) {
	known, foreign := jwts.NewKey(t, "k"), jwts.NewKey(t, "k")
	v := open(t, settings(t, jwts.Set(t, known)))
	token := known.Sign(t, good(nil))
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	// Signed by HMAC with the public key as the secret.
	der := jwts.Set(t, known)
	secret := jose.SigningKey{Algorithm: jose.HS256, Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
	symmetric := jwts.SignWith(t, secret, good(nil))
	for what, bad := range map[string]string{
		"nothing":                   "",
		"no JWT":                    "fanoutd_abc",
		"dots":                      "..",
		"half of one":               parts[0] + "." + parts[1] + ".",
		"another key":               foreign.Sign(t, good(nil)),
		"other claims":              parts[0] + "." + encode(good(jwts.Claims{"sub": "root"})) + "." + parts[2],
		"no signature":              encode(jwts.Claims{"alg": "none"}) + "." + parts[1] + ".",
		"a secret for a key":        symmetric,
		"another issuer":            known.Sign(t, good(jwts.Claims{"iss": "https://evil.example.com"})),
		"another audience":          known.Sign(t, good(jwts.Claims{"aud": "other"})),
		"no audience":               known.Sign(t, good(jwts.Claims{"aud": nil})),
		"an end that has passed":    known.Sign(t, good(jwts.Claims{"exp": time.Now().Add(-time.Second).Unix()})),
		"a later end in other case": known.Sign(t, good(jwts.Claims{"exp": time.Now().Add(-time.Second).Unix(), "Exp": time.Now().Add(time.Hour).Unix()})),
		"an end in other case":      known.Sign(t, good(jwts.Claims{"exp": nil, "EXP": time.Now().Add(time.Hour).Unix()})),
		"an issuer in other case":   known.Sign(t, good(jwts.Claims{"iss": nil, "Iss": issuerName})),
		"an audience in other case": known.Sign(t, good(jwts.Claims{"aud": nil, "AUD": audience})),
		"an end that is text":       known.Sign(t, good(jwts.Claims{"exp": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)})),
		"a beginning that is text":  known.Sign(t, good(jwts.Claims{"nbf": "1"})),
		"no end":                    known.Sign(t, good(jwts.Claims{"exp": nil})),
		"a beginning that is far":   known.Sign(t, good(jwts.Claims{"nbf": time.Now().Add(time.Hour).Unix()})),
		"no name":                   known.Sign(t, good(jwts.Claims{"sub": nil})),
		"an empty name":             known.Sign(t, good(jwts.Claims{"sub": ""})),
		"a name that is no text":    known.Sign(t, good(jwts.Claims{"sub": 7})),
		"a name with a line break":  known.Sign(t, good(jwts.Claims{"sub": "a\nb"})),
		"groups that are no text":   known.Sign(t, good(jwts.Claims{"groups": []int{1}})),
		"groups that are null":      known.Sign(t, good(jwts.Claims{"groups": []any{nil}})),
		"groups that are something": known.Sign(t, good(jwts.Claims{"groups": jwts.Claims{"a": 1}})),
	} {
		_, err := v.Verify(t.Context(), bad)
		wantRefused(t, what, err)
		if bad != "" && len(bad) > 10 && err != nil && strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %q repeats the token", what, err)
		}
	}
}

func TestInvalidKeysAreRefused(t *testing.T) {
	k := jwts.NewKey(t, "k")
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.Private, KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"parse JWKS":             "no json",
		"no signing key found":   "{}",
		"key 1 is a private key": string(private),
		"key 1: ":                `{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}`,
		"no signing key":         `{"keys": [{"kty": "unknown"}]}`,
	} {
		cfg := settings(t, []byte(text))
		if _, err := jwt.Open(cfg, reload.New(cfg.Log)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), `"d"`) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Keys for other purposes, and of unsupported curves, are ignored.
func TestUnusableKeysAreIgnored(t *testing.T) {
	k := jwts.NewKey(t, "k")
	for _, other := range []string{`{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}`, `{"kty": "OKP", "crv": "X25519", "x": "AA"}`, `{"kty": "unknown"}`} {
		both := strings.Replace(string(jwts.Set(t, k)), "[", "["+other+",", 1)
		if _, err := open(t, settings(t, []byte(both))).Verify(t.Context(), k.Sign(t, good(nil))); err != nil {
			t.Errorf("with %s: %v", other, err)
		}
	}
}

// Removing a key from the file invalidates the tokens that it signed.
func TestReplacedKeyFileInvalidatesTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	before, after := jwts.NewKey(t, "1"), jwts.NewKey(t, "2")
	cfg := settings(t, jwts.Set(t, before))
	v := open(t, cfg)
	changes := run(t, v)
	old, err := v.Verify(t.Context(), before.Sign(t, good(nil)))
	if err != nil {
		t.Fatal(err)
	}
	certs.Write(t, cfg.KeysFile, jwts.Set(t, before, after))
	<-changes
	if err := old.Check(); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify(t.Context(), after.Sign(t, good(nil))); err != nil {
		t.Error(err)
	}
	certs.Write(t, cfg.KeysFile, jwts.Set(t, after))
	<-changes
	wantRefused(t, "what began with the old key", old.Check())
	_, err = v.Verify(t.Context(), before.Sign(t, good(nil)))
	wantRefused(t, "the old key", err)
}

// A token with an unknown key makes the verifier fetch the issuer's keys again, but
// callers cannot cause that all the time.
func TestUnknownKeyIsFetchedFromTheIssuer(t *testing.T) {
	first, second, foreign := jwts.NewKey(t, "1"), jwts.NewKey(t, "2"), jwts.NewKey(t, "3")
	login := startLogin(t, jwts.Set(t, first))
	login.StartTLS()
	defer login.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	certs.Write(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: login.Certificate().Raw}))
	cfg := settings(t, nil)
	cfg.Issuer, cfg.KeysFile, cfg.CAFile = login.URL+"/realm", "", ca
	v := open(t, cfg)
	from := func(k jwts.Key) string { return k.Sign(t, good(jwts.Claims{"iss": cfg.Issuer})) }
	changes := run(t, v)
	<-changes
	if _, err := v.Verify(t.Context(), from(first)); err != nil {
		t.Fatal(err)
	}
	login.set(jwts.Set(t, first, second), "")
	for range 20 {
		_, err := v.Verify(t.Context(), from(foreign))
		wantRefused(t, "a key that the issuer does not have", err)
	}
	if n := login.count(); n != 1 {
		t.Errorf("unknown tokens caused %d fetches", n)
	}
	jwt.Forget(v.Verifier)
	if _, err := v.Verify(t.Context(), from(second)); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if n := login.count(); n != 2 {
		t.Errorf("the keys were fetched %d times", n)
	}
	// While the issuer is away or serves invalid keys, the known keys stay valid.
	for _, keys := range [][]byte{nil, []byte("nonsense")} {
		login.set(keys, "")
		jwt.Forget(v.Verifier)
		_, err := v.Verify(t.Context(), from(foreign))
		wantRefused(t, "another key", err)
		if _, err := v.Verify(t.Context(), from(second)); err != nil {
			t.Error(err)
		}
	}
}

// Until the first fetch, a JWT is neither accepted nor refused. A token that is no JWT is
// refused.
func TestVerifyBeforeTheFirstFetch(t *testing.T) {
	k := jwts.NewKey(t, "k")
	login := startLogin(t, nil)
	login.Start()
	defer login.Close()
	cfg := settings(t, nil)
	cfg.Issuer, cfg.KeysFile = login.URL+"/realm", ""
	v := open(t, cfg)
	changes := run(t, v)
	token := k.Sign(t, good(jwts.Claims{"iss": cfg.Issuer}))
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	_, err := v.Verify(t.Context(), "fanoutd_abc")
	wantRefused(t, "no JWT", err)
	login.set(jwts.Set(t, k), "")
	jwt.Forget(v.Verifier)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Error(err)
	}
	<-changes
}

// The verifier does not fetch keys in plain text from another machine, wherever discovery
// leads.
func TestKeysAreNotFetchedInPlainText(t *testing.T) {
	for _, at := range []string{"http://login.example.com/keys", "/moved"} {
		login := startLogin(t, jwts.Set(t, jwts.NewKey(t, "k")))
		login.Start()
		defer login.Close()
		if strings.HasPrefix(at, "/") {
			at = login.URL + at
		}
		login.set(nil, at)
		cfg := settings(t, nil)
		var logged logs.Buffer
		cfg.Issuer, cfg.KeysFile, cfg.Log = login.URL+"/realm", "", slog.New(slog.NewTextHandler(&logged, nil))
		v := open(t, cfg)
		run(t, v)
		if _, err := v.Verify(t.Context(), jwts.NewKey(t, "k").Sign(t, good(nil))); !errors.Is(err, access.ErrUnavailable) {
			t.Errorf("%s: %v", at, err)
		}
		if !strings.Contains(logged.String(), "refuse to fetch keys from http://login.example.com/keys") {
			t.Errorf("%s: %s", at, logged.String())
		}
	}
}
