package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/certs"
)

// resetAll opens requests over an HTTP/2 connection and resets each at once, until the server
// closes the connection. It returns the GOAWAY frame, or nil.
func resetAll(t *testing.T, conn net.Conn) *http2.GoAwayFrame {
	t.Helper()
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	for _, h := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/"},
		{Name: ":authority", Value: "localhost", Sensitive: true},
	} {
		if err := headers.WriteField(h); err != nil {
			t.Fatal(err)
		}
	}
	framer := http2.NewFramer(conn, conn)
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for id := uint32(1); err == nil; id += 2 {
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			if err == nil {
				err = framer.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}
	})
	defer group.Wait()
	defer conn.Close()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Logf("the connection ended: %v", err)
			return nil
		}
		if bye, ok := frame.(*http2.GoAwayFrame); ok {
			return bye
		}
	}
}

// limited returns the configuration of a server whose connections may abandon 20 streams per
// second.
func limited(secure *tls.Config) Config {
	limits := quota.New(quota.Limits{ResetRate: 20}, slog.New(slog.DiscardHandler))
	return Config{
		TLS: secure, Log: slog.New(slog.DiscardHandler),
		LimitStreams: func(conn net.Conn, prefaceRead bool) net.Conn {
			return frames.NewConn(conn, frames.Options{Budget: limits.StreamBudget(conn.RemoteAddr().String()), PrefaceRead: prefaceRead})
		},
	}
}

// A connection with HTTP/2 that resets its requests at once is closed with
// ENHANCE_YOUR_CALM, with TLS and without.
func TestConnectionsThatResetRequestsAreClosed(t *testing.T) {
	authority := certs.NewAuthority(t)
	pair := authority.Issue(t, certs.Server)
	for name, config := range map[string]*tls.Config{
		"plain text": nil,
		"TLS":        {Certificates: []tls.Certificate{pair.TLS(t)}, NextProtos: []string{"h2", "http/1.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(limited(config))
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			defer func() {
				s.Stop(context.WithoutCancel(t.Context()))
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			const patience = 30 * time.Second
			conn, err := net.DialTimeout("tcp", l.Addr().String(), patience)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if config != nil {
				conn = tls.Client(conn, &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}})
			}
			bye := resetAll(t, conn)
			if bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm || !strings.Contains(string(bye.DebugData()), "max-reset-rate") {
				t.Errorf("got %v, want GOAWAY with ENHANCE_YOUR_CALM", bye)
			}
		})
	}
}
