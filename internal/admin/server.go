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
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	gateway "github.com/fanoutd/fanoutd/gen/http/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
)

// Config says what to serve. Conn and Log are required.
type Config struct {
	// Conn is a connection to the server that answers.
	Conn grpc.ClientConnInterface

	// Hosts are the names under which browsers may reach this server, besides
	// addresses and localhost; see guard.go. Names may have a port.
	Hosts []string

	// TLS is for the connections that Serve accepts; it has to offer h2 and http/1.1.
	// nil: they are in plain text.
	TLS *tls.Config

	// Metrics serves /metrics. Nil: nothing does.
	Metrics http.Handler

	// Profiles says whether Go's profiles are served below /debug/pprof/.
	Profiles bool

	// Operator, if set, is asked about everybody who wants to see what only operators
	// are to see: metrics, profiles and channelz; see operators.go. It is told what they
	// want, as in "GET /metrics", is shown the certificate of the client (nil: none) and
	// the Authorization headers, and returns the status with which the request is refused,
	// or nil. The context has the address of the client and its user-agent where that of
	// a request of gRPC has them.
	Operator func(ctx context.Context, what string, certificate *x509.Certificate, authorization []string) error

	// Receive, if set, is asked in the same way before the body of a request is read,
	// which will take so many bytes of memory. It returns what is called when the memory
	// is free again.
	Receive func(ctx context.Context, what string, certificate *x509.Certificate, authorization []string, bytes int64) (done func(), err error)

	Log *slog.Logger
}

// Server serves HTTP.
type Server struct {
	http     http.Server
	channelz *grpc.Server
	maxAge   time.Duration // of a connection with TLS
}

// How long clients may take, and how much they may send. Watches may take as long as
// they like; a client that has gone without a word is found by TCP.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = time.Minute // for what is no watch, which is a few MiB at most
	maxHeaderBytes    = 64 << 10
)

// New returns a server that serves nothing until Serve is called.
func New(cfg Config) (*Server, error) {
	s := &Server{channelz: newChannelz(), maxAge: maxConnectionAge}
	handler, err := newHandler(cfg, s.channelz)
	if err != nil {
		s.channelz.Stop()
		return nil, err
	}
	s.http = http.Server{
		Handler:           s.aging(handler),
		TLSConfig:         cfg.TLS,
		ConnContext:       born,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(complaints{cfg.Log}, "", 0),
		Protocols:         new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	// Channelz is gRPC, which is HTTP/2; without TLS its clients begin with it.
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	return s, nil
}

// complaints logs what http.Server has to say.
type complaints struct{ log *slog.Logger }

// Write implements [io.Writer].
func (c complaints) Write(b []byte) (int, error) {
	message, level := strings.TrimSpace(string(b)), slog.LevelWarn
	if strings.HasPrefix(message, "http: TLS handshake error") {
		level = slog.LevelDebug // whoever can connect can cause as many as they like
	}
	c.log.Log(context.Background(), level, message)
	return len(b), nil
}

// Serve serves on the listener until the server is stopped.
func (s *Server) Serve(l net.Listener) error {
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop returns when all requests have ended; those that have not when ctx is done
// are cut off. Watches end with the server behind the connection, so that is stopped
// first.
func (s *Server) Stop(ctx context.Context) {
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // what it says of listeners that are closed does not matter
	}
	s.channelz.Stop()
}

func newHandler(cfg Config, channelz http.Handler) (http.Handler, error) {
	api := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newLines()),
		runtime.WithErrorHandler(answerError),
		runtime.WithStreamErrorHandler(noteStreamError),
		runtime.WithRoutingErrorHandler(answerRoutingError),
		runtime.WithMiddlewares(checked),
		runtime.WithIncomingHeaderMatcher(incoming),
		runtime.WithOutgoingHeaderMatcher(nothing),
		runtime.WithOutgoingTrailerMatcher(nothing),
		// A slash in a key may be written as %2F, too.
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		// A POST is a POST: what says otherwise gets around the checks of browsers.
		runtime.WithDisablePathLengthFallback(),
	)
	ctx := context.Background() // nothing is started
	conn := heartbeats{cfg.Conn}
	err := errors.Join(
		gateway.RegisterFanoutServiceHandlerClient(ctx, api, fanoutv1.NewFanoutServiceClient(conn)),
		gateway.RegisterStoreServiceHandlerClient(ctx, api, fanoutv1.NewStoreServiceClient(conn)),
		gateway.RegisterAdminServiceHandlerClient(ctx, api, fanoutv1.NewAdminServiceClient(conn)),
	)
	if err != nil {
		return nil, fmt.Errorf("register the paths of HTTP: %w", err)
	}
	description, err := describe(openAPI)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	files, err := readPage(pageFiles)
	if err != nil {
		return nil, fmt.Errorf("read the status page: %w", err)
	}
	next := statusPage(files, pages(description, cfg.bodies(headers(streams(answerTimeout, shown(api))))))
	return guard(cfg.Hosts, probes(cfg.Conn, operators(cfg, channelz, next))), nil
}

// shown tells the server behind the connection which certificate the client has shown.
func shown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := certificateOf(r); c != nil {
			r = r.WithContext(access.OnBehalf(r.Context(), c))
		}
		next.ServeHTTP(w, r)
	})
}

// certificateOf returns the certificate that the client has shown, or nil.
func certificateOf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// incoming says which request headers the server gets to see. The gateway adds the
// address of the client, and Authorization. A trace goes on where a client has begun one.
func incoming(name string) (string, bool) {
	if name == "Traceparent" || name == "Tracestate" {
		return strings.ToLower(name), true
	}
	return runtime.MetadataPrefix + name, name == "User-Agent"
}

// nothing of gRPC's headers is for clients of HTTP.
func nothing(string) (string, bool) { return "", false }
