package clienttest

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/testserver"
)

// Server is a server in memory. Any number of goroutines may use it.
type Server struct {
	t        testing.TB
	server   *testserver.Server
	listener *bufconn.Listener
}

// NewServer starts a server with these resources. Their objects may have values of any type and
// labels. The server stops when the test ends.
func NewServer(t testing.TB, resources ...string) *Server {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	s := &Server{t, testserver.New(l, resources...), l}
	t.Cleanup(s.server.Close)
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

func (s *Server) dial(ctx context.Context, _ string) (net.Conn, error) {
	c, err := s.listener.DialContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return c, nil
}

// Start starts the server after [Server.Stop]. Its objects and positions are those from before.
func (s *Server) Start() { s.server.Start() }

// Stop makes the server unreachable: it cuts all connections, and refuses others until
// [Server.Start].
func (s *Server) Stop() { s.server.Stop() }

// CutConnections cuts all connections, as a network does. Clients connect again and resume.
func (s *Server) CutConnections() { s.server.CutConnections() }

// Refuse answers all requests with an error, until [Server.Accept]. It cuts all connections, so that
// the watches are refused as well. Whether they try again depends on the code and the reason.
func (s *Server) Refuse(code codes.Code, reason client.Reason) {
	s.t.Helper()
	if err := s.server.Refuse(code, string(reason)); err != nil {
		s.t.Fatalf("clienttest: %v", err)
	}
}

// Accept serves requests again.
func (s *Server) Accept() { s.server.Accept() }

// ExpirePositions makes the server forget its history, so no watch can resume: each one starts over
// with a new state ([client.PhaseReset]), and one with [client.EveryEvent] ends with
// [client.ErrPositionExpired]. It restarts the server.
func (s *Server) ExpirePositions() { s.server.ExpirePositions() }

// NewEpoch replaces etcd by one that was restored from a backup: the objects are the same, but have
// other revisions. It restarts the server.
func (s *Server) NewEpoch() { s.server.NewEpoch() }

// StopEtcd makes etcd unreachable for the server, until [Server.StartEtcd]. Writes and linearizable
// reads fail with the code Unavailable. Watches go on, but what they have becomes stale.
func (s *Server) StopEtcd() { s.server.StopEtcd() }

// StartEtcd makes etcd reachable again.
func (s *Server) StartEtcd() { s.server.StartEtcd() }
