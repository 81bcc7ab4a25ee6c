package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Connections to a server that waits end after this time. The client connects again, perhaps to a
// server that does not wait.
const waitingAge = time.Second

// WaitingConfig configures a [Waiting]. All fields but TLS are required.
type WaitingConfig struct {
	TLS       *tls.Config
	Limits    quota.Limits
	Resources []string      // their names
	For       func() string // for which servers it waits; callers need no credentials to read it
	Log       *slog.Logger
}

// Waiting serves in the place of a [Server] that cannot begin yet. Its health is NOT_SERVING, and it answers
// each request with CLUSTER_FORMING.
type Waiting struct {
	cfg          WaitingConfig
	limits       *quota.Limiter
	grpc, within *grpc.Server
	conn         *grpc.ClientConn // to within
	local        sync.WaitGroup
	endStreams   context.CancelFunc
}

// NewWaiting returns a server that must be stopped.
func NewWaiting(cfg WaitingConfig) (*Waiting, error) {
	w := &Waiting{cfg: cfg, limits: quota.New(cfg.Limits, cfg.Log)}
	ending, endStreams := context.WithCancel(context.Background())
	w.endStreams = endStreams
	budgets := func(address string) frames.Budget { return w.limits.StreamBudget(address) }
	options := append(transport.ServerOptions(cfg.TLS, w.limits.RequestBytes, budgets, func(string, error) {}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return w.Refuse(stream.Context()) }),
		grpc.StreamInterceptor(endWith(ending)))
	w.within = grpc.NewServer(options...)
	options = append(options, transport.ConnectionOptions(w.limits.StreamsPerConnection, 0, 0)...)
	w.grpc = grpc.NewServer(append(options, grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: waitingAge, MaxConnectionAgeGrace: waitingAge,
	}))...)
	status := health.NewServer()
	for _, name := range append([]string{""}, cfg.Resources...) {
		if name != "" {
			name = healthService(name)
		}
		status.SetServingStatus(name, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	healthpb.RegisterHealthServer(w.grpc, status)
	healthpb.RegisterHealthServer(w.within, status)
	var err error
	if w.conn, err = connectWithin(w.within, &w.local); err != nil {
		return nil, err
	}
	return w, nil
}

// Refuse returns the status that answers a request.
func (w *Waiting) Refuse(ctx context.Context) error {
	return apierr.Status(ctx, &apierr.WaitingError{For: w.cfg.For()})
}

// Conn returns a connection within the process.
func (w *Waiting) Conn() grpc.ClientConnInterface { return w.conn }

// Serve accepts connections until the server is stopped.
func (w *Waiting) Serve(l net.Listener) error {
	if err := w.grpc.Serve(transport.LimitListener(l, w.limits.AdmitConnection, w.limits.AcceptFailed)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// LimitedForOperators is [Server.LimitedForOperators].
func (w *Waiting) LimitedForOperators(l net.Listener) net.Listener {
	return transport.LimitListener(l, w.limits.AdmitOperatorConnection, w.limits.AcceptFailed)
}

// LimitStreams is [Server.LimitStreams].
func (w *Waiting) LimitStreams(conn net.Conn) net.Conn {
	return frames.NewConn(conn, w.limits.HTTPStreamBudget(conn.RemoteAddr().String()))
}

// Stop answers the requests that have arrived, ends the streams of health, and closes all connections. Clients send
// a request that came too late to the next server: gRPC tells them that nobody has read it. A request that never arrives
// in full ends with its connection, whose age is limited.
func (w *Waiting) Stop() {
	w.endStreams()
	w.grpc.GracefulStop()
	w.within.Stop()
	w.local.Wait()
	_ = w.conn.Close() // its other end is closed already
}

// endWith ends streams when ctx is done.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		wrapped := middleware.WrapServerStream(stream)
		streaming, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		wrapped.WrappedContext = streaming
		return handler(srv, wrapped)
	}
}
