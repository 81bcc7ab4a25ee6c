package admin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

// The names under which net/http passes on connections with HTTP/2, with TLS and without.
const (
	secureHTTP2 = "h2"
	plainHTTP2  = "unencrypted_http2"
)

// limitStreams makes the server apply the limits of streams to connections with HTTP/2. The
// HTTP/2 server inside net/http takes no wrapped connections, so this uses the one of
// golang.org/x/net.
func (s *Server) limitStreams(wrap func(conn net.Conn, prefaceRead bool) net.Conn) error {
	//lint:ignore SA1019 there is no other way to serve wrapped connections
	server := &http2.Server{}
	configured := s.http.TLSConfig
	//lint:ignore SA1019 the same
	if err := http2.ConfigureServer(&s.http, server); err != nil {
		return fmt.Errorf("configure HTTP/2: %w", err)
	}
	s.http.TLSConfig = configured // ConfigureServer adds one to a server without TLS
	serve := func(hs *http.Server, conn net.Conn, h http.Handler, prefaceRead bool) {
		var ctx context.Context
		if based, ok := h.(interface{ BaseContext() context.Context }); ok {
			ctx = based.BaseContext()
		}
		//lint:ignore SA1019 the same
		server.ServeConn(conn, &http2.ServeConnOpts{Context: ctx, Handler: h, BaseConfig: hs, SawClientPreface: prefaceRead})
	}
	s.http.TLSNextProto[secureHTTP2] = func(hs *http.Server, conn *tls.Conn, h http.Handler) {
		serve(hs, secureConn{wrap(conn, false), conn}, h, false)
	}
	s.http.TLSNextProto[plainHTTP2] = func(hs *http.Server, conn *tls.Conn, h http.Handler) {
		plain, ok := conn.NetConn().(interface{ UnencryptedNetConn() net.Conn })
		if !ok {
			hs.ErrorLog.Print("http2: a connection without TLS was passed on in an unknown way")
			return // net/http closes the connection
		}
		serve(hs, wrap(plain.UnencryptedNetConn(), true), h, true)
	}
	return nil
}

// secureConn is a wrapped connection with TLS.
type secureConn struct {
	net.Conn
	tls *tls.Conn
}

// ConnectionState tells the HTTP/2 server what TLS has negotiated and verified.
func (c secureConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
