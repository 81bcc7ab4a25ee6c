package client_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// turnServer answers writes. It ends watches at once; they only use up a turn.
type turnServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
	fanoutv1.UnimplementedStoreServiceServer
	fails error // answers writes
	calls int   // writes
}

func (s *turnServer) Put(context.Context, *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	s.calls++
	return &fanoutv1.PutResponse{Object: &fanoutv1.Object{}}, s.fails
}

func (s *turnServer) Watch(*fanoutv1.WatchRequest, grpc.ServerStreamingServer[fanoutv1.WatchResponse]) error {
	return nil
}

// inTurn returns a client of the servers that has connections to all of them. The last server that it has used is
// the last of the list.
func inTurn(t *testing.T, connections *connectionCounter, servers ...*turnServer) *client.Client {
	t.Helper()
	var all []*grpc.Server
	for _, s := range servers {
		srv := grpc.NewServer()
		fanoutv1.RegisterFanoutServiceServer(srv, s)
		fanoutv1.RegisterStoreServiceServer(srv, s)
		all = append(all, srv)
	}
	c := dialInMemory(t, all, client.WithDialOptions(grpc.WithStatsHandler(connections)))
	t.Cleanup(func() { c.Close() })
	for connections.begun.Load() < int64(len(servers)) {
		write(t, c)
		synctest.Wait()
	}
	for last := servers[len(servers)-1]; ; {
		before := last.calls
		if write(t, c); last.calls > before {
			return c
		}
	}
}

// write writes to the server whose turn it is.
func write(t *testing.T, c *client.Client) error {
	t.Helper()
	_, err := c.Resource("config").Put(t.Context(), "a", client.Text("1"))
	return err
}

// useTurn uses up the turn of a server.
func useTurn(t *testing.T, c *client.Client) {
	t.Helper()
	stream, err := fanoutv1.NewFanoutServiceClient(c.Conn()).Watch(t.Context(), &fanoutv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
}

func TestTheNextRequestAvoidsAServerThatWasUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		avoids bool
	}{
		"without a reason": {errLost, true},
		"with a reason":    {refusal(codes.Unavailable, client.ErrNotReady), true},
		"another failure":  {refusal(codes.ResourceExhausted, client.ErrRateLimited), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := &turnServer{}, &turnServer{}
				conn := inTurn(t, &connectionCounter{}, one, other)
				one.fails = c.err
				if err := write(t, conn); status.Code(err) != status.Code(c.err) {
					t.Fatalf("got %v, want %v", err, c.err)
				}
				synctest.Wait()  // until the connection was replaced, if it was
				useTurn(t, conn) // so it is the turn of the server that has failed
				if failed := write(t, conn) != nil; failed == c.avoids {
					t.Errorf("the next request has failed: %v", failed)
				}
				// Only that one avoids it.
				before := one.calls
				_, _ = write(t, conn), write(t, conn)
				if n := one.calls - before; n != 1 {
					t.Errorf("of two further requests, %d go to the server that has failed, want 1", n)
				}
			})
		})
	}
}

func TestAServerWithoutAnAlternativeIsNotAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &turnServer{}
		conn := inTurn(t, &connectionCounter{}, s)
		s.fails = errLost
		for range 3 {
			if err := write(t, conn); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		s.fails = nil
		if err := write(t, conn); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// A failure without a reason may be one of the connection, such as a proxy that has lost its server.
func TestTheNextRequestUsesAnotherConnection(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		connections int64
	}{
		"without a reason": {errLost, 2},
		"with a reason":    {refusal(codes.Unavailable, client.ErrNotReady), 1},
		"another failure":  {status.Error(codes.Internal, "no"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, connections := &turnServer{}, &connectionCounter{}
				conn := inTurn(t, connections, s)
				s.fails = c.err
				if err := write(t, conn); status.Code(err) != status.Code(c.err) {
					t.Fatalf("got %v, want %v", err, c.err)
				}
				s.fails = nil
				if err := write(t, conn); err != nil {
					t.Errorf("the next request: %v", err)
				}
				synctest.Wait()
				if begun, ended := connections.begun.Load(), connections.ended.Load(); begun != c.connections || ended != begun-1 {
					t.Errorf("got %d connections, %d of them closed; want %d, with one open", begun, ended, c.connections)
				}
			})
		})
	}
}
