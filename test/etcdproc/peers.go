package etcdproc

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
)

// Route returns the address through which one member reaches another, whose peer listener
// is at the address. The members are numbered from 0.
type Route func(from, to int, address string) string

// advertisedPeer returns the address that a member advertises to its peers. It is not
// reachable, so every connection uses the HTTP proxy of the member that opens it. Go never
// uses an HTTP proxy for loopback addresses.
func advertisedPeer(member int) string { return fmt.Sprintf("192.0.2.%d:2380", member+1) }

// startPeerProxy starts the HTTP proxy of one member. It forwards requests to the addresses
// in routes, by advertised address, and aborts the connection of a request that fails. The
// end of the test stops the proxy.
func startPeerProxy(t testing.TB, routes map[string]string) (url string) {
	t.Helper()
	transport := &http.Transport{}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // peers stream messages to each other
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Host = routes[r.In.URL.Host]
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}
