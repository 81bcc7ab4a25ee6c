package clienttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Server is a server in memory. Any number of goroutines may use it.
type Server struct {
	t           testing.TB
	names       []string // of the resources
	store       *store
	collections []*collection // one for each resource

	mu       sync.Mutex
	running  *instance             // nil: the server is stopped; guarded by mu
	listener *bufconn.Listener     // of running; guarded by mu
	conns    map[net.Conn]struct{} // guarded by mu
	refusing error                 // the answer to all requests; nil: they are served; guarded by mu
	epochs   int                   // guarded by mu
}

// NewServer starts a server with these resources. Their objects may have values of any type and
// labels. The server stops when the test ends.
func NewServer(t testing.TB, resources ...string) *Server {
	t.Helper()
	s := &Server{t: t, names: resources, store: newStore(), conns: map[net.Conn]struct{}{}, epochs: 1}
	for range resources {
		s.collections = append(s.collections, s.store.newCollection())
	}
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		s.store.close()
	})
	return s
}

// Client returns a client of the server, which is closed when the test ends.
func (s *Server) Client(opts ...client.Option) *client.Client {
	s.t.Helper()
	c, err := client.New("passthrough:///clienttest", append([]client.Option{
		client.WithInsecure(), client.WithDialOptions(grpc.WithContextDialer(s.dial)),
	}, opts...)...)
	if err != nil {
		s.t.Fatalf("clienttest: %v", err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Errorf("clienttest: close the client: %v", err)
		}
	})
	return c
}

var errStopped = errors.New("connection refused: the server is stopped")

func (s *Server) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, errStopped
	}
	c, err := listener.DialContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != listener {
		_ = c.Close() // it is in memory
		return nil, errStopped
	}
	tracked := &conn{Conn: c, server: s}
	s.conns[tracked] = struct{}{}
	return tracked, nil
}

// conn is a connection of a client.
type conn struct {
	net.Conn
	server *Server
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// Start starts the server after [Server.Stop]. Its objects and positions are those from before.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	s.listener = bufconn.Listen(1 << 16)
	s.running = start(s.names, s.collections, s.listener, s.refusal)
}

// Stop makes the server unreachable: it cuts all connections, and refuses others until
// [Server.Start].
func (s *Server) Stop() {
	s.mu.Lock()
	running := s.running
	s.running, s.listener = nil, nil
	s.mu.Unlock()
	s.CutConnections()
	if running != nil {
		running.stop()
	}
}

// CutConnections cuts all connections, as a network does. Clients connect again and resume.
func (s *Server) CutConnections() {
	s.mu.Lock()
	var all []net.Conn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it is in memory
	}
}

// Refuse answers all requests with an error, until [Server.Accept]. It cuts all connections, so that
// the watches are refused as well. Whether they try again depends on the code and the reason.
func (s *Server) Refuse(code codes.Code, reason client.Reason) {
	s.t.Helper()
	st, err := status.New(code, "refused by the test").WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: string(reason)})
	if err != nil {
		s.t.Fatalf("clienttest: refuse with %v: %v", code, err)
	}
	s.mu.Lock()
	s.refusing = st.Err()
	s.mu.Unlock()
	s.CutConnections()
}

// Accept serves requests again.
func (s *Server) Accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = nil
}

func (s *Server) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusing
}

// ExpirePositions makes the server forget its history, so no watch can resume: each one starts over
// with a new state ([client.PhaseReset]), and one with [client.EveryEvent] ends with
// [client.ErrPositionExpired]. It restarts the server.
func (s *Server) ExpirePositions() {
	s.Stop()
	s.store.compact()
	s.Start()
}

// NewEpoch replaces etcd by one that was restored from a backup: the objects are the same, but have
// other revisions. It restarts the server.
func (s *Server) NewEpoch() {
	s.Stop()
	s.mu.Lock()
	s.epochs++
	epoch := object.Epoch(fmt.Sprintf("test-%d", s.epochs))
	s.mu.Unlock()
	s.store.begin(epoch, s.collections)
	s.Start()
}

// StopEtcd makes etcd unreachable for the server, until [Server.StartEtcd]. Writes and linearizable
// reads fail with the code Unavailable. Watches go on, but what they have becomes stale.
func (s *Server) StopEtcd() { s.store.setDown(true) }

// StartEtcd makes etcd reachable again.
func (s *Server) StartEtcd() { s.store.setDown(false) }

// discard is the log of the server.
var discard = slog.New(slog.DiscardHandler)

// stopTimeout bounds the end of requests when the server stops. Their connections are cut already.
const stopTimeout = 5 * time.Second
