package admin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/resetstorm"
)

// limited returns the configuration of a server whose connections may abandon 20 streams per
// second. GET /metrics is not answered.
func limited(secure *tls.Config) Config {
	limits := quota.New(quota.Limits{ResetRate: 20}, slog.New(slog.DiscardHandler))
	return Config{
		TLS: secure, Log: slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		LimitStreams: func(conn net.Conn) net.Conn {
			return frames.NewConn(conn, limits.StreamBudget(conn.RemoteAddr().String()))
		},
	}
}

// serve serves HTTP until the test ends, and returns the address.
func serve(t *testing.T, cfg Config) string {
	t.Helper()
	s, err := New(cfg.ForEveryone())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(context.WithoutCancel(t.Context()))
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// A connection with HTTP/2 that gives up its requests at once is closed with
// ENHANCE_YOUR_CALM, with TLS and without, however it gives them up.
func TestConnectionsThatResetRequestsAreClosed(t *testing.T) {
	authority := certs.NewAuthority(t)
	pair := authority.Issue(t, certs.Server)
	for name, config := range map[string]*tls.Config{
		"plain text": nil,
		"TLS":        {Certificates: []tls.Certificate{pair.TLS(t)}, NextProtos: []string{"h2", "http/1.1"}},
	} {
		address := serve(t, limited(config))
		for way, giveUp := range map[string]resetstorm.GiveUp{"reset": resetstorm.Reset, "violation": resetstorm.Violate} {
			t.Run(name+", "+way, func(t *testing.T) {
				conn, err := net.DialTimeout("tcp", address, poll.Patience)
				if err != nil {
					t.Fatal(err)
				}
				if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
					t.Fatal(err)
				}
				if config != nil {
					conn = tls.Client(conn, &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}})
				}
				bye := resetstorm.Run(t, conn, []hpack.HeaderField{
					{Name: ":method", Value: "GET"},
					{Name: ":scheme", Value: "http"},
					{Name: ":path", Value: "/metrics"},
					{Name: ":authority", Value: "localhost"},
				}, giveUp)
				if bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm || !strings.Contains(string(bye.DebugData()), "max-reset-rate") {
					t.Errorf("got %v, want GOAWAY with ENHANCE_YOUR_CALM", bye)
				}
			})
		}
	}
}
