package failover

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// server stands for a member of etcd. It can be frozen: then it receives requests, and
// answers none of them.
type server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedWatchServer

	listener *bufconn.Listener
	leader   uint64

	mu       sync.Mutex
	answers  chan struct{}    // guarded by mu; closed unless the server is frozen
	received map[string]int   // guarded by mu: requests by method
	failures map[string]error // guarded by mu: the answers to methods that fail
}

// cluster is the members of an etcd, and a client.
type cluster struct {
	servers []*server
	members *Members
	client  *clientv3.Client
}

// start starts n members and a client. The caller is in a bubble of synctest, and calls
// stop before it leaves the bubble.
func start(t *testing.T, n int) (c *cluster, stop func()) {
	t.Helper()
	c = &cluster{}
	var addresses []string
	var running sync.WaitGroup
	var stops []func()
	listeners := map[string]*bufconn.Listener{}
	for i := range n {
		s := &server{listener: bufconn.Listen(1 << 20), leader: 1, answers: make(chan struct{}), received: map[string]int{}}
		close(s.answers)
		address := fmt.Sprintf("member-%d:2379", i)
		addresses, listeners[address] = append(addresses, address), s.listener
		g := grpc.NewServer()
		pb.RegisterKVServer(g, s)
		pb.RegisterMaintenanceServer(g, s)
		pb.RegisterWatchServer(g, s)
		running.Go(func() { _ = g.Serve(s.listener) })
		c.servers = append(c.servers, s)
		stops = append(stops, func() { s.thaw(); g.Stop() })
	}
	members := New(addresses, slog.New(slog.NewTextHandler(io.Discard, nil)))
	dial := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return listeners[address].DialContext(ctx)
	})
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addresses, DialOptions: append(members.DialOptions(), dial), Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.members, c.client = members, client
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { members.Run(ctx, client.ActiveConnection()) })
	// The first request makes gRPC connect.
	if _, err := client.Get(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * probeInterval) // until all members have been probed
	synctest.Wait()
	c.forget()
	return c, func() {
		cancel()
		for _, stop := range stops {
			stop()
		}
		client.Close()
		running.Wait()
	}
}

func (s *server) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = make(chan struct{})
}

func (s *server) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.answers:
	default:
		close(s.answers)
	}
}

// receive counts a request, and waits until the server answers.
func (s *server) receive(ctx context.Context, method string) error {
	s.mu.Lock()
	s.received[method]++
	answers, failure := s.answers, s.failures[method]
	s.mu.Unlock()
	select {
	case <-answers:
		return failure
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail makes the server answer requests of a method with an error.
func (s *server) fail(method string, code codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = map[string]error{method: status.Error(code, "failed")}
}

// count returns how many requests of a method the member has received.
func (s *server) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[method]
}

// count returns how many requests of a method all members have received.
func (c *cluster) count(method string) int {
	n := 0
	for _, s := range c.servers {
		n += s.count(method)
	}
	return n
}

// forget resets the counts.
func (c *cluster) forget() {
	for _, s := range c.servers {
		s.mu.Lock()
		clear(s.received)
		s.mu.Unlock()
	}
}

func (s *server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.receive(ctx, "Range"); err != nil {
		return nil, err
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}, Count: int64(len(r.Key))}, nil
}

func (s *server) Put(ctx context.Context, _ *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.receive(ctx, "Put"); err != nil {
		return nil, err
	}
	return &pb.PutResponse{Header: &pb.ResponseHeader{}}, nil
}

func (s *server) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := s.receive(ctx, "Status"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.StatusResponse{Header: &pb.ResponseHeader{}, Leader: s.leader, Version: "3.7.3"}, nil
}

// Watch answers the creation of a watch, and then sends nothing.
func (s *server) Watch(w pb.Watch_WatchServer) error {
	if _, err := w.Recv(); err != nil {
		return err
	}
	if err := s.receive(w.Context(), "Watch"); err != nil {
		return err
	}
	if err := w.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 1}, Created: true}); err != nil {
		return err
	}
	<-w.Context().Done()
	return w.Context().Err()
}
