package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// upload is a request whose body does not arrive.
type upload struct {
	net.Conn
	answers *bufio.Reader
}

// upload begins a request from a host. The server answers 100 (Continue) when it reads the
// body.
func (s *site) upload(t *testing.T, from string, size int, header string) *upload {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // fails if the test has closed it already
	_, err = fmt.Fprintf(conn, "POST /v1/resources/config/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\n%sContent-Length: %d\r\n\r\n", header, size)
	if err != nil {
		t.Fatal(err)
	}
	return &upload{conn, bufio.NewReader(conn)}
}

// answer returns the server's next response.
func (u *upload) answer(t *testing.T) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(u.answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// await waits until the condition holds.
func (s *site) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	if !poll.Wait(ctx, is) {
		t.Fatalf("timed out waiting until %s", what)
	}
}

const largeBody = 4 << 20

// The server reads no body of a client that it refuses.
func TestBodiesOfRefusedClientsAreNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	dir := t.TempDir()
	tokens, policy, log := filepath.Join(dir, "tokens"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	_, line, err := access.NewToken("alice", nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, tokens, line+"\n")
	write(t, policy, anonymousLists)
	s := open(t, func(cfg *config.Config) { cfg.TokenFile, cfg.PolicyFile, cfg.AuditLog = tokens, policy, log })
	write(t, policy+".new", "rules: []\n")
	if err := os.Rename(policy+".new", policy); err != nil {
		t.Fatal(err)
	}
	s.await(t, "nobody may list", func() bool {
		return s.do(t, "GET", "/v1/resources/config/objects", "").status == http.StatusUnauthorized
	})
	for _, header := range []string{"", "Authorization: Bearer nobody\r\n", "Authorization: Basic nobody\r\n"} {
		var all []*upload
		for range 33 {
			all = append(all, s.upload(t, "127.0.0.2", largeBody, header))
		}
		for _, u := range all {
			resp := u.answer(t)
			body, err := io.ReadAll(resp.Body)
			a := answer{resp.StatusCode, resp.Header, body}
			if err != nil || a.status != http.StatusUnauthorized || a.reason(t) != "UNAUTHENTICATED" || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Fatalf("%q is answered with %d %s, %v", header, a.status, a.body, err)
			}
		}
	}
	s.stop()
	text, err := os.ReadFile(log)
	if n := strings.Count(string(text), `"method":"POST /v1/resources/config/transactions","peer":"127.0.0.2:`); err != nil || n != 99 {
		t.Errorf("got %d audit records of denials, %v:\n%.500s", n, err, text)
	}
}

// Bodies being received count against the memory limit, of which a client gets at most as
// much as it leaves.
func TestBodiesBeingReceivedAreLimited(t *testing.T) {
	s := open(t, func(cfg *config.Config) { cfg.MaxRequestMemory = 16 * config.MiB })
	reads := func(u *upload) {
		t.Helper()
		if resp := u.answer(t); resp.StatusCode != http.StatusContinue {
			t.Errorf("the status is %d", resp.StatusCode)
		}
	}
	await := func(metric string) {
		t.Helper()
		s.await(t, metric, func() bool { return strings.Contains(string(s.do(t, "GET", "/metrics", "").body), metric+"\n") })
	}
	first := s.upload(t, "127.0.0.2", largeBody, "")
	reads(first) // twice its size is half of the limit
	second := s.upload(t, "127.0.0.2", largeBody, "")
	await("fanoutd_requests_waiting 1")
	other := s.upload(t, "127.0.0.3", largeBody/2, "")
	reads(other)
	await("fanoutd_request_bytes 1.2582912e+07")
	_ = first.Close() // a client may go at any time
	reads(second)
	_, _ = second.Close(), other.Close()
	await("fanoutd_request_bytes 0")
}
