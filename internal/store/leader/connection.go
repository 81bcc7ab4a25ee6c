package leader

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
)

const (
	// connectPatience is how long an attempt waits for the connection.
	connectPatience = 250 * time.Millisecond

	// connectTimeout limits a connection attempt. A write that was about to be sent when the connection
	// broke waits for the next attempt.
	connectTimeout = 2 * time.Second

	// gRPC allows no shorter interval between keepalives.
	keepaliveInterval = 10 * time.Second
	keepaliveTimeout  = 5 * time.Second
)

// reconnect is the backoff between connection attempts. gRPC's default grows to two minutes.
var reconnect = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// connection is the connection to one member.
type connection struct {
	urls   []string // client URLs of the member
	conn   *grpc.ClientConn
	kv     pb.KVClient
	leases pb.LeaseClient

	brokenSince atomic.Pointer[time.Time] // when an attempt first found it broken; nil: it was open then
}

// connect returns a connection to a member. It does not wait until it is open. The certificate of the member
// must contain the name, or the host of its URL if the name is empty.
func connect(urls []string, files *tls.Config, name string) (*connection, error) {
	var addresses []resolver.Address
	security := insecure.NewCredentials()
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("client URL of a member: %w", err)
		}
		addresses = append(addresses, resolver.Address{Addr: u.Host, ServerName: u.Hostname()})
		if u.Scheme == "https" {
			security = credentials.NewTLS(files)
		}
	}
	members := manual.NewBuilderWithScheme("member")
	members.InitialState(resolver.State{Addresses: addresses})
	options := []grpc.DialOption{
		grpc.WithResolvers(members),
		grpc.WithTransportCredentials(security),
		grpc.WithDisableServiceConfig(), // it could ask gRPC to repeat requests
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval, Timeout: keepaliveTimeout}),
		grpc.WithStatsHandler(sendings{}),
		// etcd refuses a request that is too large. An answer that gRPC refuses would belong to a write
		// that was applied.
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(math.MaxInt32), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	}
	if name != "" {
		options = append(options, grpc.WithAuthority(name))
	}
	conn, err := grpc.NewClient("member:///leader", options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the member at %v: %w", urls, err)
	}
	conn.Connect()
	return &connection{urls: slices.Clone(urls), conn: conn, kv: pb.NewKVClient(conn), leases: pb.NewLeaseClient(conn)}, nil
}

// open reports whether the connection is open. If wait is set, it waits until then, for at most
// connectPatience or until ctx is done.
func (n *connection) open(ctx context.Context, wait bool) bool {
	state := n.conn.GetState()
	if state == connectivity.Idle {
		n.conn.Connect()
	}
	if state != connectivity.Ready && (!wait || !n.awaitReady(ctx)) {
		n.broke()
		return false
	}
	if n.brokenSince.Load() != nil {
		n.brokenSince.Store(nil)
	}
	return true
}

func (n *connection) awaitReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	for state := n.conn.GetState(); state != connectivity.Ready; state = n.conn.GetState() {
		if state == connectivity.Idle {
			n.conn.Connect()
		}
		if !n.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// broke notes that the connection is broken.
func (n *connection) broke() { n.brokenSince.CompareAndSwap(nil, new(time.Now())) }

// brokenFor returns how long the connection has been broken.
func (n *connection) brokenFor() time.Duration {
	if since := n.brokenSince.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// sending notes whether a request may have reached the member.
type sending struct{ sent atomic.Bool }

// sendingKey is the context key of a sending.
type sendingKey struct{}

// sendings is a gRPC statistics handler that notes what was sent.
type sendings struct{}

// HandleRPC implements [stats.Handler].
func (sendings) HandleRPC(ctx context.Context, s stats.RPCStats) {
	of, ok := ctx.Value(sendingKey{}).(*sending)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.Begin:
		// gRPC repeats a request by itself only if the member has not processed it: it has refused the
		// stream because it is about to stop.
		if s.IsTransparentRetryAttempt {
			of.sent.Store(false)
		}
	case *stats.OutHeader:
		of.sent.Store(true)
	}
}

// TagRPC implements [stats.Handler].
func (sendings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements [stats.Handler].
func (sendings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements [stats.Handler].
func (sendings) HandleConn(context.Context, stats.ConnStats) {}
