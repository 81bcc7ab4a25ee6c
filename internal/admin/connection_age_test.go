package admin

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/certs"
)

// Old TLS connections are replaced, so a client whose authority is no longer trusted cannot
// keep its connection forever. While the server drains, all connections are replaced.
func TestOldConnectionsAreReplaced(t *testing.T) {
	for protocol, name := range map[string]string{"http/1.1": "HTTP/1.1", "h2": "HTTP/2.0"} {
		for _, c := range []struct{ old, drains bool }{{}, {old: true}, {drains: true}} {
			authority := certs.NewAuthority(t)
			pair := authority.Issue(t, certs.Server)
			s, err := New(limited(&tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}, NextProtos: []string{protocol}}))
			if err != nil {
				t.Fatal(err)
			}
			if s.maxAge != maxConnectionAge {
				t.Errorf("the maximum age is %v", s.maxAge)
			}
			if c.old {
				s.maxAge = time.Nanosecond
			}
			replaced := c.old || c.drains
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}, ForceAttemptHTTP2: protocol == "h2"}
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
			// The GOAWAY of HTTP/2 may arrive after the next request or two.
			for n := 0; n < 2 || replaced && reused && n < 100; n++ {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.Addr().String()+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.Proto != name {
					t.Errorf("the protocol is %s", resp.Proto)
				}
				if c.drains {
					s.Drain()
				}
			}
			if reused == replaced {
				t.Errorf("%s, %+v: connection reused: %v", protocol, c, reused)
			}
			transport.CloseIdleConnections()
			s.Stop(context.WithoutCancel(ctx))
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
}
