package access_test

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/test/certs"
)

// newToken returns a new token and its line.
func newToken(t *testing.T, name string, groups ...string) (token, line string) {
	t.Helper()
	token, line, err := access.NewToken(name, groups)
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

// load writes the lines to a token file and reads it.
func load(t *testing.T, path string, lines ...string) (*access.Tokens, error) {
	t.Helper()
	certs.Write(t, path, []byte(strings.Join(lines, "\n")))
	return access.LoadTokens(path, reload.New(slog.New(slog.NewTextHandler(t.Output(), nil))))
}

// refused reports whether err refuses credentials with a message that does not contain
// the secret.
func refused(t *testing.T, err error, secret string) bool {
	t.Helper()
	r, ok := errors.AsType[*access.RefusedError](err)
	if !ok || r.Message == "" {
		t.Errorf("got %v, want a refusal", err)
		return false
	}
	if secret != "" && strings.Contains(err.Error(), secret) {
		t.Errorf("the error %q contains the secret", err)
	}
	return true
}

func TestTokenFileIdentifiesCallers(t *testing.T) {
	web, webLine := newToken(t, "web", "readers", "web")
	other, otherLine := newToken(t, "web")
	ops, opsLine := newToken(t, "ops@example.com")
	path := filepath.Join(t.TempDir(), "tokens")
	tokens, err := load(t, path, "# callers", "", webLine, "  "+otherLine+"\t", opsLine)
	if err != nil {
		t.Fatal(err)
	}
	a := access.Authenticator{Tokens: tokens}
	for token, want := range map[string]access.Identity{
		web:   {Name: "web", Groups: []string{"readers", "web"}, Method: access.Token},
		other: {Name: "web", Method: access.Token},
		ops:   {Name: "ops@example.com", Method: access.Token},
	} {
		pass, err := a.Identify(t.Context(), access.Credentials{Bearer: token})
		if err != nil || pass.Check() != nil {
			t.Fatal(err, pass.Check())
		}
		if diff := cmp.Diff(want, pass.Identity); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(webLine+otherLine+opsLine, token) || len(token) < 43 {
			t.Errorf("the token %q is in the file or too short", token)
		}
	}
	unknown, _ := newToken(t, "web")
	for _, bad := range []string{unknown, web[:len(web)-1], web + "x", strings.ToUpper(web), strings.Fields(webLine)[1]} {
		_, err := a.Identify(t.Context(), access.Credentials{Bearer: bad})
		refused(t, err, bad)
	}
	if pass, err := a.Identify(t.Context(), access.Credentials{}); err != nil || !pass.Anonymous() {
		t.Errorf("without credentials: got %+v, %v, want an anonymous pass", pass, err)
	}
}

func TestInvalidTokenFileIsRefused(t *testing.T) {
	token, line := newToken(t, "a")
	for want, lines := range map[string][]string{
		"line 2: the second word":             {line, "b " + token},
		"line 1: the second word must":        {"b sha256:12"},
		"line 1: must be":                     {"b"},
		`line 1: must be "NAME`:               {line + " g h"},
		"line 3: duplicate of the token of a": {line, "", strings.Replace(line, "a", "b", 1)},
		"line 1: group must not be empty":     {line + " g,,h"},
		"line 1: name must have at most":      {strings.Repeat("x", 600) + line},
		"line 1: name \"\\x00a\" must be ":    {"\x00" + line},
	} {
		_, err := load(t, filepath.Join(t.TempDir(), "tokens"), lines...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := access.LoadTokens(filepath.Join(t.TempDir(), "nothing"), reload.New(slog.Default())); err == nil {
		t.Error("loading a missing file succeeded")
	}
	for _, name := range []string{"", "a b", "#a", "a\n"} {
		if _, _, err := access.NewToken(name, nil); err == nil {
			t.Errorf("NewToken accepted the name %q", name)
		}
	}
	for _, group := range []string{"", "a b", "a,b"} {
		if _, _, err := access.NewToken("a", []string{group}); err == nil {
			t.Errorf("NewToken accepted the group %q", group)
		}
	}
}

// Removing a token or changing its identity invalidates its passes. Other passes stay
// valid.
func TestPassEndsWithItsTokenLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, lineA := newToken(t, "a", "g")
		b, lineB := newToken(t, "b")
		c, lineC := newToken(t, "c")
		path := filepath.Join(t.TempDir(), "tokens")
		certs.Write(t, path, []byte(strings.Join([]string{lineA, lineB, lineC}, "\n")))
		files := reload.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
		tokens, err := access.LoadTokens(path, files)
		if err != nil {
			t.Fatal(err)
		}
		changes := make(chan struct{}, 10)
		ctx, stop := context.WithCancel(t.Context())
		go files.Run(ctx, func() { changes <- struct{}{} })
		defer synctest.Wait()
		defer stop()
		passes := map[string]access.Pass{}
		auth := access.Authenticator{Tokens: tokens}
		for _, token := range []string{a, b, c} {
			if passes[token], err = auth.Identify(ctx, access.Credentials{Bearer: token}); err != nil {
				t.Fatal(err)
			}
		}
		certs.Write(t, path, []byte(lineA+",h\n"+lineC))
		<-changes
		for token, ends := range map[string]bool{a: true, b: true, c: false} {
			pass := passes[token]
			if err := pass.Check(); (err != nil) != ends {
				t.Errorf("%s: %v", pass.Name, err)
			} else if ends {
				refused(t, err, token)
			}
		}
		_, err = auth.Identify(ctx, access.Credentials{Bearer: b})
		refused(t, err, b)

		certs.Write(t, path, []byte("nonsense"))
		time.Sleep(3 * reload.Interval)
		if _, err := auth.Identify(ctx, access.Credentials{Bearer: c}); err != nil || len(changes) > 0 {
			t.Errorf("an invalid file replaced the tokens: %v", err)
		}
	})
}

func TestCertificateName(t *testing.T) {
	authority := certs.NewAuthority(t)
	spiffe := "spiffe://example.com/ns/shop/sa/web"
	for want, subject := range map[string]certs.Subject{
		spiffe:          {CommonName: "cn", DNSNames: []string{"web.example.com"}, URIs: []string{"https://example.com", spiffe}},
		"a.example.com": {CommonName: "cn", DNSNames: []string{"a.example.com", "b.example.com"}, URIs: []string{"https://example.com"}},
		"cn":            {CommonName: "cn", IPs: []string{"10.0.0.1"}},
		"":              {IPs: []string{"10.0.0.1"}},
	} {
		shown, err := x509.ParseCertificate(authority.Issue(t, subject).TLS(t).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		pass, err := (&access.Authenticator{}).Identify(t.Context(), access.Credentials{Certificate: shown})
		if want == "" {
			refused(t, err, "")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(access.Identity{Name: want, Method: access.Certificate}, pass.Identity); diff != "" {
			t.Error(diff)
		}
		if !pass.Expires.Equal(shown.NotAfter) {
			t.Errorf("the pass expires at %v, want %v", pass.Expires, shown.NotAfter)
		}
	}
	// TLS accepted this certificate before it expired.
	late, err := x509.ParseCertificate(authority.Issue(t, certs.Subject{CommonName: "late", NotAfter: time.Now().Add(-time.Minute)}).TLS(t).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&access.Authenticator{}).Identify(t.Context(), access.Credentials{Certificate: late})
	if !errors.Is(err, access.ErrExpired) {
		t.Errorf("an expired certificate: got %v, want %v", err, access.ErrExpired)
	}
}

// A token takes precedence even if it is invalid and the certificate is valid.
func TestTokenTakesPrecedenceOverCertificate(t *testing.T) {
	token, line := newToken(t, "token")
	tokens, err := load(t, filepath.Join(t.TempDir(), "tokens"), line)
	if err != nil {
		t.Fatal(err)
	}
	a := access.Authenticator{Tokens: tokens}
	shown, err := x509.ParseCertificate(certs.NewAuthority(t).Issue(t, certs.Subject{CommonName: "cert"}).TLS(t).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pass, err := a.Identify(t.Context(), access.Credentials{Certificate: shown, Bearer: token})
	if err != nil || pass.Name != "token" {
		t.Errorf("a valid token and a valid certificate: got %+v, %v, want the token's identity", pass.Identity, err)
	}
	_, err = a.Identify(t.Context(), access.Credentials{Certificate: shown, Bearer: "wrong"})
	refused(t, err, "wrong")
}
