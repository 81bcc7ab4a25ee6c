package security

import (
	"crypto/tls"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/jwts"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestRefusedCredentialsAreLogged checks that the log says why credentials were refused, in few
// lines and without the credentials, while the answer stays vague.
func TestRefusedCredentialsAreLogged(t *testing.T) {
	w := newFixture(t, nil)
	ctx := within(t)
	claims := func(change jwts.Claims) jwts.Claims {
		c := jwts.Claims{"iss": issuer, "aud": audience, "sub": "a", "exp": time.Now().Add(time.Hour).Unix()}
		maps.Copy(c, change)
		return c
	}
	foreign := jwts.NewKey(t, "first")
	bearers := map[string]string{
		"unknown":     "fanoutd_wrong",
		"malformed":   "a.b.c",
		"expired":     w.key.Sign(t, claims(jwts.Claims{"exp": time.Now().Add(-time.Minute).Unix()})),
		"not-yet":     w.key.Sign(t, claims(jwts.Claims{"nbf": time.Now().Add(time.Hour).Unix()})),
		"issuer":      w.key.Sign(t, claims(jwts.Claims{"iss": "https://other.example.com"})),
		"audience":    w.key.Sign(t, claims(jwts.Claims{"aud": "other"})),
		"claims":      w.key.Sign(t, claims(jwts.Claims{"sub": 7})),
		"signature":   foreign.Sign(t, claims(nil)),
		"unknown-key": jwts.NewKey(t, "other").Sign(t, claims(nil)),
	}
	const tries = 30
	for fault, bearer := range bearers {
		conn := w.dial(t, credential{bearer: bearer})
		for range tries {
			err := get(ctx, conn)
			wantOut(t, fault, err)
			if fault == "audience" || fault == "issuer" || fault == "signature" || fault == "unknown-key" {
				if got := status.Convert(err).Message(); got != "the JWT is not valid here" {
					t.Errorf("%s: the caller got %q", fault, got)
				}
			}
		}
	}
	// A certificate of another authority fails in the handshake, of both listeners.
	stranger := certs.NewAuthority(t).Issue(t, certs.Subject{CommonName: "a"}).TLS(t)
	for range tries {
		for _, address := range []string{w.cfg.Listen, w.cfg.AdminListen} {
			handshake(t, address, w.tls(credential{}), &stranger)
		}
	}
	poll.Until(t, "the failed handshakes are logged", func() bool { return len(w.log.faults(t)["certificate"]) > 0 })

	got := w.log.faults(t)
	for fault, lines := range got {
		if len(lines) > tries/2 {
			t.Errorf("%s: %d lines for %d requests, want few", fault, len(lines), tries)
		}
	}
	want := append(slices.Collect(maps.Keys(bearers)), "certificate")
	slices.Sort(want)
	if found := slices.Sorted(maps.Keys(got)); !slices.Equal(found, want) {
		t.Errorf("got lines about %q, want %q", found, want)
	}
	for _, bearer := range bearers {
		for part := range strings.SplitSeq(bearer, ".") {
			if len(part) > 10 && strings.Contains(w.log.String(), part) {
				t.Errorf("the log has %q of a token", part)
			}
		}
	}
	// An operator can see what to correct.
	if line := strings.Join(got["audience"], ""); !strings.Contains(line, "fanoutd") || !strings.Contains(line, "other") {
		t.Errorf("the line about the audience does not name both: %s", line)
	}
	// A caller without credentials knows that. It is not logged.
	wantOut(t, "nothing", get(ctx, w.dial(t, credential{})))
	if n := len(w.log.faults(t)); n != len(want) {
		t.Errorf("got lines about %d faults, want %d", n, len(want))
	}
}

// handshake connects with a certificate that the server refuses.
func handshake(t *testing.T, address string, config *tls.Config, shown *tls.Certificate) {
	t.Helper()
	config.NextProtos = []string{"h2"}
	// The client would not show a certificate that no authority of the server has issued.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	raw, err := net.DialTimeout("tcp", address, poll.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn := tls.Client(raw, config)
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Handshake(); err == nil {
		_, err = conn.Read(make([]byte, 1)) // TLS 1.3 reports the refusal here
		if err == nil {
			t.Errorf("%s accepts a certificate of a stranger", address)
		}
	}
}

// logBuffer collects log lines in JSON.
type logBuffer struct{ logs.Buffer }

// faults returns the lines about refused credentials by their fault.
func (b *logBuffer) faults(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for raw := range strings.Lines(b.String()) {
		var line struct{ Msg, Fault string }
		if err := json.Unmarshal([]byte(raw), &line); err != nil {
			t.Fatal(err)
		}
		if line.Msg == "credentials are refused" {
			found[line.Fault] = append(found[line.Fault], raw)
		}
	}
	return found
}
