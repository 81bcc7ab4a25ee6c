package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/cluster"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/subscribe"
	"github.com/fanoutd/fanoutd/internal/server/transport"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// Config configures a server. The fields down to Log are required.
type Config struct {
	Resources     []backend.Resource
	Writes        bool          // serve StoreService
	MaxValueBytes int           // of a value that is written
	MaxOperations int           // in one transaction
	MaxTTL        time.Duration // of an object that is written
	Log           *slog.Logger

	// TLS is the configuration of the connections that Serve accepts. Nil: plain text.
	TLS *tls.Config

	// Authenticator identifies callers. Nil: all callers are anonymous.
	Authenticator *access.Authenticator

	// Policy defines what callers may do, including anonymous ones. UsePolicy changes it. Nil:
	// all admitted callers may do everything.
	Policy *policy.Policy

	// WatchTimeLimit is how long a watch lasts at most; a watch ends at a random time after
	// four fifths of it, with its last position. So clients that watch for months spread over
	// all servers. 0: no limit.
	WatchTimeLimit time.Duration

	// WatchGrace is how long a watch that ends may take to send its current message and its
	// last position. The stream of a client that does not read by then ends without them.
	// Default: 30 s.
	WatchGrace time.Duration

	// ConnectionAge is how long a connection with TLS accepts new requests. Clients then
	// connect again, and both sides show their current certificates. Streams continue.
	// Zero: 15 minutes.
	ConnectionAge time.Duration

	// Limits limits what clients may use. By default, only the size of requests is limited.
	Limits quota.Limits

	// Audit records writes, denials and acts of operators. Nil: nothing is recorded.
	Audit *audit.Log

	// Etcd is the etcd whose members ClusterService shows and changes. Nil: there is none.
	Etcd manage.Etcd

	// Space frees the space of an embedded etcd. Nil: there is none.
	Space SpaceReclaimer

	// DrainDelay is how long Drain waits before it refuses connections and watches, so that
	// health checks notice. Default: 0.
	DrainDelay time.Duration

	// DrainPeriod is the time over which Drain spreads the ends of watches. Default: 0, they
	// end together.
	DrainPeriod time.Duration

	// SlowRequest is how long a request, the first message of a watch, or a catch-up may take
	// before it is logged as slow. 0: nothing is logged.
	SlowRequest time.Duration

	// Observers see all requests.
	Observers rpc.Observers
}

// Server serves the protocol.
type Server struct {
	log       *slog.Logger
	grpc      *grpc.Server
	within    *grpc.Server // serves the same services to in-process connections; see Local
	health    *health.Server
	resources backend.Resources
	watches   *registry.Registry
	subscribe *subscribe.Service
	rights    *rpc.Rights
	slow      *rpc.SlowLog

	limits       *quota.Limiter
	interceptors *rpc.Interceptors

	drainDelay  time.Duration
	drainPeriod time.Duration
	onDrain     func()
	listeners   listeners // Drain closes them
	endStreams  context.CancelFunc

	local      sync.WaitGroup // goroutines that serve the connections of Local
	stopping   atomic.Bool    // Drain or Stop has begun
	healthDone sync.WaitGroup // the goroutine of watchHealth
	stopHealth context.CancelFunc
}

const defaultConnectionAge = 15 * time.Minute

// New returns a server. It serves nothing before Serve is called, and must be stopped even
// if Serve is never called.
func New(cfg Config) *Server {
	s := &Server{
		log: cfg.Log, health: health.NewServer(), resources: backend.Resources{},
		limits: quota.New(cfg.Limits, cfg.Log), rights: &rpc.Rights{},
		drainDelay: cfg.DrainDelay, drainPeriod: cfg.DrainPeriod,
		slow: rpc.NewSlowLog(cfg.SlowRequest, cfg.Log),
	}
	stopping, endStreams := context.WithCancel(context.Background())
	s.endStreams = endStreams
	s.rights.Use(cfg.Policy)
	s.interceptors = &rpc.Interceptors{
		Log: cfg.Log, Authenticator: cfg.Authenticator, Rights: s.rights, Limits: s.limits, Audit: cfg.Audit, Denials: rpc.NewDenials(), Slow: s.slow, Stopping: stopping,
	}
	for i := range cfg.Resources {
		r := &cfg.Resources[i]
		s.resources[r.Name] = r
	}
	s.watches = registry.New(registry.Config{Resources: s.resources, Interceptors: s.interceptors, TimeLimit: cfg.WatchTimeLimit, Grace: cfg.WatchGrace})
	s.subscribe = subscribe.New(s.watches, s.resources)
	budgets := func(address string) frames.Budget { return s.limits.StreamBudget(address) }
	options := append(cfg.Observers.Options(), transport.ServerOptions(cfg.TLS, s.limits.RequestBytes, budgets, s.HandshakeFailed)...)
	options = append(options,
		grpc.ForceServerCodecV2(grpcmsg.NewGRPCCodec()),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			return rpc.WithStreamContext(ctx), nil
		}),
	)
	s.within = grpc.NewServer(options...)
	oldest := cmp.Or(cfg.ConnectionAge, defaultConnectionAge)
	if cfg.TLS == nil {
		oldest = 0
	}
	s.grpc = grpc.NewServer(append(options, transport.ConnectionOptions(s.limits.StreamsPerConnection, cfg.WatchTimeLimit, oldest)...)...)
	f := &fanout{resources: s.resources, rights: s.rights, limits: s.limits, watches: s.watches}
	a := &admin{
		resources: s.resources, watches: s.watches, lagScans: newLagScans(s.watches), limits: s.limits, rights: s.rights,
		since: time.Now(), space: cfg.Space, appliedCounts: newAppliedCounts(s.watches.CountApplied),
	}
	if cfg.Writes {
		a.rewrites = cfg.MaxOperations
	}
	stores := &writes{
		resources: s.resources, rights: s.rights, limits: request.WriteLimits{ValueBytes: cfg.MaxValueBytes, Operations: cfg.MaxOperations, TTL: cfg.MaxTTL},
		overwrites: overwritesOf(s.resources),
	}
	members := cluster.New(cfg.Etcd, s.rights)
	watchHandler := watch.Handler(s.watches)
	for _, one := range []*grpc.Server{s.grpc, s.within} {
		to := rpc.Registrar{Server: one, Interceptors: s.interceptors, Observers: cfg.Observers}
		to.RegisterEntrances(serviceDesc(f, watchHandler, s.subscribe.Handler()), "Watch", "Subscribe")
		if cfg.Writes {
			fanoutv1.RegisterStoreServiceServer(to, stores)
		}
		to.RegisterService(adminDesc(a), a)
		fanoutv1.RegisterClusterServiceServer(to, members)
		healthpb.RegisterHealthServer(to, s.health)
		reflection.Register(to)
	}

	ctx, stop := context.WithCancel(context.Background())
	s.stopHealth = stop
	s.setHealth("", false)
	for name := range s.resources {
		s.setHealth(healthService(name), false)
	}
	s.healthDone.Go(func() { s.watchHealth(ctx) })
	return s
}

// Limited returns a listener that accepts no more connections than the limits allow,
// counted over all listeners of the server. It closes the others at once.
// It accepts connections that a host opens too fast, and reads them when it is time.
func (s *Server) Limited(l net.Listener) net.Listener {
	return transport.LimitListener(l, s.limits.AdmitConnection, s.limits.AcceptFailed)
}

// LimitedForOperators is like Limited. Its listener accepts a few more connections, see
// [quota.Limits].
func (s *Server) LimitedForOperators(l net.Listener) net.Listener {
	return transport.LimitListener(l, s.limits.AdmitOperatorConnection, s.limits.AcceptFailed)
}

// HandshakeFailed logs that a client has shown a certificate that is not accepted. Other failures,
// such as those of port scanners, are of no interest.
func (s *Server) HandshakeFailed(address string, err error) {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		s.limits.RefuseCredentials(quota.ClientAt(address), access.FaultCertificate, err)
	}
}

// LimitStreams returns a connection that applies the limits of streams to its client. The
// caller serves HTTP on it.
func (s *Server) LimitStreams(conn net.Conn) net.Conn {
	return frames.NewConn(conn, s.limits.HTTPStreamBudget(conn.RemoteAddr().String()))
}

// Usage returns how much of the limits is in use.
func (s *Server) Usage() quota.Usage { return s.limits.Usage() }

// Serve accepts connections from the listener until the server drains or is stopped.
func (s *Server) Serve(l net.Listener) error {
	s.listeners.add(l)
	if err := s.grpc.Serve(s.Limited(l)); err != nil && !s.stopping.Load() {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// OnDrain sets a function that Drain calls when it begins to refuse watches. Call OnDrain
// before Drain.
func (s *Server) OnDrain(f func()) { s.onDrain = f }

// Drain moves the watches to other servers before a stop. It sets the health to NOT_SERVING and
// waits for Config.DrainDelay. Then it refuses new connections and watches, and ends the
// existing watches over Config.DrainPeriod, one connection after another. Each connection gets
// a GOAWAY, and each watch its last position. Other requests on open connections are still
// served. Drain returns when all watches have been asked to end or ctx is done.
func (s *Server) Drain(ctx context.Context) {
	s.unhealthy()
	if s.drainDelay > 0 {
		s.watches.WaitToDrain(ctx, s.drainDelay)
	}
	// A load balancer that cannot connect tries another server.
	s.listeners.close()
	if s.onDrain != nil {
		s.onDrain()
	}
	s.watches.Drain(ctx, s.drainPeriod)
}

// unhealthy sets the health of everything to NOT_SERVING for good.
func (s *Server) unhealthy() {
	s.stopping.Store(true)
	s.stopHealth()
	s.healthDone.Wait()
	s.health.Shutdown()
}

// Stop ends all watches with their last position, ends the other streams, waits until all
// requests have ended, and stops the server. When ctx is done, it cuts off what is left.
// Call Drain first, so that not all clients reconnect at once.
func (s *Server) Stop(ctx context.Context) {
	s.unhealthy()
	servers := []*grpc.Server{s.grpc, s.within}
	for _, one := range servers {
		defer context.AfterFunc(ctx, one.Stop)()
	}
	s.watches.EndAll()
	s.endStreams()
	var stopping sync.WaitGroup
	for _, one := range servers {
		stopping.Go(one.GracefulStop)
	}
	stopping.Wait()
	s.local.Wait()
	s.subscribe.Stop()
	s.watches.Stop()
}

// Reexamine checks the credentials and rights of all watches again, and ends those that may
// not go on with the error that a new watch would get. Call it after a change of what access
// depends on, such as the accepted tokens.
func (s *Server) Reexamine() {
	if n := s.watches.Reexamine(); n > 0 {
		s.log.Info("ended watches that lost their access", "watches", n)
	}
}

// UsePolicy replaces the policy. Watches that the new one denies end at once, without a last
// message. A nil policy allows everything.
func (s *Server) UsePolicy(p *policy.Policy) {
	s.rights.Use(p)
	s.Reexamine()
}

// WatchStats describes the watches of each resource. It makes none of them wait.
func (s *Server) WatchStats() map[string]*registry.Stats { return s.watches.Stats() }

// StreamWatchesEnded returns the number of watches of Subscribe streams that were refused or have
// ended, for each status code.
func (s *Server) StreamWatchesEnded() map[codes.Code]int64 { return s.subscribe.Ended() }

// SlowRequests returns how many requests, or parts of them, took longer than
// Config.SlowRequest.
func (s *Server) SlowRequests() int64 { return s.slow.Count() }

// Operator returns an error unless the caller of a request over HTTP may apply the verb, such as
// [policy.Metrics], to every resource; see [rpc.Interceptors.AdmitHTTP].
func (s *Server) Operator(verb policy.Verb) func(ctx context.Context, r access.HTTPRequest) error {
	return func(ctx context.Context, r access.HTTPRequest) error {
		return s.interceptors.AdmitHTTP(ctx, r, func(ctx context.Context) error {
			return s.rights.May(ctx, verb, rpc.EveryResource, object.Scope{})
		})
	}
}

// Receive reserves memory for the body of a request over HTTP, before the body is read. done releases
// the memory.
func (s *Server) Receive(ctx context.Context, r access.HTTPRequest, bytes int64) (done func(), err error) {
	var memory *quota.Reservation
	err = s.interceptors.AdmitHTTP(ctx, r, func(ctx context.Context) (err error) {
		memory, err = s.limits.ReserveRequest(ctx, bytes)
		return err
	})
	return memory.Release, err
}

// Rights returns the names of the verbs that the caller of a request over HTTP may apply to a key of a
// resource, or to the whole resource if the key is empty. If writes are disabled, it leaves out put,
// delete and purge. To ask is allowed to every caller, so the audit log has no denials of it but those of bad
// credentials.
func (s *Server) Rights(ctx context.Context, r access.HTTPRequest, resource, key string) (names []string, err error) {
	scope := object.Scope{}
	if key != "" {
		scope = object.ExactKey(object.Key(key))
	}
	_, writes := s.GetServiceInfo()[fanoutv1.StoreService_ServiceDesc.ServiceName]
	err = s.interceptors.AdmitHTTP(ctx, r, func(ctx context.Context) error {
		if err := s.limits.AllowRequest(quota.ClientOf(ctx)); err != nil {
			return err
		}
		for _, verb := range policy.Verbs() {
			switch {
			case verb == policy.Metrics && resource != rpc.EveryResource: // the metrics are not those of a resource
			case !writes && (verb == policy.Put || verb == policy.Delete || verb == policy.Purge || verb == policy.SkipValidation):
			case s.rights.May(ctx, verb, resource, scope) == nil:
				names = append(names, verb.String())
			}
		}
		return nil
	})
	return names, err
}

// GetServiceInfo returns the registered services and their methods.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }
