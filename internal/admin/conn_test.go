package admin

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A client that speaks HTTP to a server with TLS reads why that fails.
func TestHTTPWithoutTLSIsAnswered(t *testing.T) {
	pair := certs.NewAuthority(t).Issue(t, certs.Server)
	address := serve(t, limited(&tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}, NextProtos: []string{"h2", "http/1.1"}}))
	conn, err := net.DialTimeout("tcp", address, poll.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got status %d, want %d", resp.StatusCode, http.StatusBadRequest)
	}
}
