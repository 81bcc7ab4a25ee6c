package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	gateway "github.com/fanoutd/fanoutd/gen/http/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
)

// Config configures a [Server]. Conn, Log and all functions are required.
type Config struct {
	// Conn is a connection to the gRPC server.
	Conn grpc.ClientConnInterface

	// Hosts are the host names, optionally with a port, under which browsers may reach
	// this server, besides IP addresses and localhost; see guard.go.
	Hosts []string

	// TLS is the configuration of accepted connections. It must offer h2 and http/1.1.
	// Nil means plain text.
	TLS *tls.Config

	// Unready returns why the server does not accept requests, for /readyz. Anyone may
	// read it.
	Unready func() string

	// Metrics serves /metrics. Nil: the path does not exist.
	Metrics http.Handler

	// Profiles serves Go's profiles below /debug/pprof/.
	Profiles bool

	// Channelz serves channelz over gRPC. [EnableChannelz] must have been called.
	Channelz bool

	// Operator decides who may use profiles and channelz. It returns nil or the gRPC status
	// that refuses the request. The context has the client's address and user agent where
	// a gRPC request has them.
	Operator func(ctx context.Context, r access.HTTPRequest) error

	// Scraper decides in the same way who may read the metrics.
	Scraper func(ctx context.Context, r access.HTTPRequest) error

	// Receive is called in the same way before the body of a request is read.
	// bytes is the memory that the body will take; done is called when that is free again.
	Receive func(ctx context.Context, r access.HTTPRequest, bytes int64) (done func(), err error)

	// Origins are the origins of pages that may use the API from browsers, besides the status page.
	Origins []string

	// Servers are the origins of the HTTP services of all servers over the same etcd. The status page shows
	// all of them, and their pages may read the status of this server.
	Servers []string

	// MaxValueBytes is the maximum size of a value that is written. 0: that of any body.
	MaxValueBytes int64

	// Rights is called in the same way, and returns what the client may do with a key of a
	// resource, or with the whole resource if the key is empty, as verbs of a policy.
	Rights func(ctx context.Context, r access.HTTPRequest, resource, key string) ([]string, error)

	// LimitStreams wraps each connection, to limit the HTTP/2 streams that its client
	// opens and resets.
	LimitStreams func(conn net.Conn) net.Conn

	// HandshakeFailed is called with the address of a client whose TLS handshake has
	// failed, and why.
	HandshakeFailed func(address string, err error)

	Log *slog.Logger
}

// Server serves HTTP.
type Server struct {
	cfg      Config
	http     http.Server
	grpc     *grpc.Server  // reflection, and channelz if it is on
	maxAge   time.Duration // of a TLS connection
	draining atomic.Bool
}

// Limits of time and size. Watches have no time limit here; TCP detects a peer that is
// gone.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = time.Minute // for reading an answer of a few MiB; not for watches
	maxHeaderBytes    = 64 << 10
)

// New returns a server. It serves nothing before Serve is called.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, grpc: newGRPC(cfg.Channelz), maxAge: maxConnectionAge}
	handler, err := newHandler(cfg, s.grpc)
	if err != nil {
		s.grpc.Stop()
		return nil, err
	}
	s.http = http.Server{
		Handler:           s.onConnection(handler),
		ConnContext:       withConn,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&errorLog{log: cfg.Log}, "", 0),
		Protocols:         new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	// To http.Server, connections with TLS are plain text, too; see listener. And operators may
	// use gRPC, which needs HTTP/2 even without TLS.
	s.http.Protocols.SetUnencryptedHTTP2(true)
	return s, nil
}

// Serve serves on the listener until the server is stopped.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(&listener{l, s.cfg}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain makes clients use other connections: each connection ends after its current request,
// and one that is idle ends now. Call it when the gRPC server begins to refuse watches.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.http.SetKeepAlivesEnabled(false)
}

// Stop waits until all requests have ended, and closes the connections of those that are
// still running when ctx is done. Watches end when the gRPC server stops, so stop that
// first.
func (s *Server) Stop(ctx context.Context) {
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // its errors are about listeners that are closed already
	}
	s.grpc.Stop()
}

func newHandler(cfg Config, grpc http.Handler) (http.Handler, error) {
	api := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, new(lines)),
		runtime.WithMarshalerOption(eventStreamType, events{new(lines)}),
		runtime.WithForwardResponseOption(unlessGone),
		runtime.WithForwardResponseOption(writeValue),
		runtime.WithForwardResponseRewriter(asRaw),
		runtime.WithErrorHandler(answerError),
		runtime.WithStreamErrorHandler(noteStreamError),
		runtime.WithRoutingErrorHandler(answerRoutingError),
		runtime.WithMiddlewares(checked),
		runtime.WithIncomingHeaderMatcher(incomingHeader),
		runtime.WithOutgoingHeaderMatcher(outgoingHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		// A slash in a key may also be written as %2F.
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		// A POST stays a POST: a method override would evade the checks of browsers.
		runtime.WithDisablePathLengthFallback(),
	)
	ctx := context.Background() // the handlers start nothing that it would end
	conn := calls{cfg.Conn}
	err := errors.Join(
		gateway.RegisterFanoutServiceHandlerClient(ctx, api, fanoutv1.NewFanoutServiceClient(conn)),
		gateway.RegisterStoreServiceHandlerClient(ctx, api, fanoutv1.NewStoreServiceClient(conn)),
		gateway.RegisterAdminServiceHandlerClient(ctx, api, fanoutv1.NewAdminServiceClient(conn)),
		gateway.RegisterClusterServiceHandlerClient(ctx, api, fanoutv1.NewClusterServiceClient(conn)),
	)
	if err != nil {
		return nil, fmt.Errorf("register the HTTP paths: %w", err)
	}
	paths, err := cfg.paths()
	if err != nil {
		return nil, err
	}
	requests := streams(answerTimeout, cfg.bodies(headers(api)))
	return guard(cfg.Hosts, []visitors{trusted(cfg.Origins), siblings(cfg.Servers)}, route(cfg, paths, grpc, requests)), nil
}

// certificateOf returns the client's verified certificate, or nil.
func certificateOf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// incomingHeader decides which request headers are passed to the gRPC server. The gateway
// itself adds the client's address and Authorization. Trace headers continue the client's
// trace.
func incomingHeader(name string) (string, bool) {
	if name == "Traceparent" || name == "Tracestate" {
		return strings.ToLower(name), true
	}
	return runtime.MetadataPrefix + name, name == "User-Agent"
}

// outgoingHeader decides which headers of gRPC answers are passed to HTTP clients: the one that
// names a watch in reports.
func outgoingHeader(name string) (string, bool) { return name, name == watchHeader }

const watchHeader = "fanout-watch"

// noHeader keeps all trailers of gRPC answers from HTTP clients.
func noHeader(string) (string, bool) { return "", false }
