package testserver

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server is a server in memory. Any number of goroutines may use it.
type Server struct {
	listener  net.Listener
	closed    chan struct{}  // by Close
	accepting sync.WaitGroup // ends after closed
	store     *store

	conns    sync.Map                      // the open ones, as keys
	refusing atomic.Pointer[status.Status] // the answer to all requests; nil: they are served

	mu      sync.Mutex
	running *instance // nil: the server is stopped; guarded by mu
}

// New starts a server with these resources. Close closes the listener.
func New(listener net.Listener, resources ...string) *Server {
	s := &Server{listener: listener, closed: make(chan struct{}), store: newStore(resources)}
	s.Start()
	s.accepting.Go(s.accept)
	return s
}

// Close stops the server for good.
func (s *Server) Close() {
	s.Stop()
	close(s.closed)
	_ = s.listener.Close() // nothing was written
	s.accepting.Wait()
}

// Start starts the server after [Server.Stop]. Its objects and positions are those from before.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = s.newInstance()
	}
}

// Stop cuts all connections, and refuses others until [Server.Start].
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
	for c := range s.conns.Range {
		_ = c.(net.Conn).Close() // the other side sees it
	}
}

// Refuse answers all requests with an error, until [Server.Accept]. It cuts all connections, so that
// the watches are refused as well.
func (s *Server) Refuse(code codes.Code, reason string) error {
	st, err := status.New(code, "refused by the test").WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: reason})
	if err != nil {
		return fmt.Errorf("refuse with %v: %w", code, err)
	}
	s.refusing.Store(st)
	s.CutConnections()
	return nil
}

// Accept serves requests again.
func (s *Server) Accept() { s.refusing.Store(nil) }

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
	s.store.begin()
	s.Start()
}

// StopEtcd makes etcd unreachable for the server, until [Server.StartEtcd].
func (s *Server) StopEtcd() { s.store.setDown(true) }

// StartEtcd makes etcd reachable again.
func (s *Server) StartEtcd() { s.store.setDown(false) }

// discard is the log of the server.
var discard = slog.New(slog.DiscardHandler)

// stopTimeout bounds the end of requests when the server stops. Their connections are cut already.
const stopTimeout = 5 * time.Second
