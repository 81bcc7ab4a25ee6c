package testserver

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Server is a server in memory. Any number of goroutines may use it.
type Server struct {
	names       []string // of the resources
	listen      func() net.Listener
	store       *store
	collections []*collection // one for each resource

	mu       sync.Mutex
	running  *instance             // nil: the server is stopped; guarded by mu
	conns    map[net.Conn]struct{} // of running; guarded by mu
	refusing error                 // the answer to all requests; nil: they are served; guarded by mu
	epochs   int                   // guarded by mu
}

// New starts a server with these resources. Each start calls listen, and each stop closes the listener.
func New(listen func() net.Listener, resources ...string) *Server {
	s := &Server{names: resources, listen: listen, store: newStore(), conns: map[net.Conn]struct{}{}, epochs: 1}
	for range resources {
		s.collections = append(s.collections, s.store.newCollection())
	}
	s.Start()
	return s
}

// Close stops the server for good.
func (s *Server) Close() {
	s.Stop()
	s.store.close()
}

// Start starts the server after [Server.Stop]. Its objects and positions are those from before.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = start(s.names, s.collections, &listener{Listener: s.listen(), server: s}, s.refusal)
	}
}

// Stopped reports whether the server is stopped.
func (s *Server) Stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running == nil
}

// Stop cuts all connections, and closes the listener until [Server.Start].
func (s *Server) Stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	s.CutConnections()
	if running != nil {
		running.stop()
	}
}

// CutConnections cuts all connections, as a network does.
func (s *Server) CutConnections() {
	s.mu.Lock()
	var all []net.Conn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // the other side sees it
	}
}

// Refuse answers all requests with an error, until [Server.Accept]. It cuts all connections, so that
// the watches are refused as well.
func (s *Server) Refuse(code codes.Code, reason string) error {
	st, err := status.New(code, "refused by the test").WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: reason})
	if err != nil {
		return fmt.Errorf("refuse with %v: %w", code, err)
	}
	s.mu.Lock()
	s.refusing = st.Err()
	s.mu.Unlock()
	s.CutConnections()
	return nil
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

// ExpirePositions makes the server forget its history, so no watch can resume. It restarts the server.
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

// StopEtcd makes etcd unreachable for the server, until [Server.StartEtcd].
func (s *Server) StopEtcd() { s.store.setDown(true) }

// StartEtcd makes etcd reachable again.
func (s *Server) StartEtcd() { s.store.setDown(false) }

// listener notes the connections of a server.
type listener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := &conn{Conn: c, server: s}
	s.conns[noted] = struct{}{}
	return noted, nil
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

// discard is the log of the server.
var discard = slog.New(slog.DiscardHandler)

// stopTimeout bounds the end of requests when the server stops. Their connections are cut already.
const stopTimeout = 5 * time.Second
