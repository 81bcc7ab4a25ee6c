package calls

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server of grpc-go that calls the handler for each call, and returns a configuration
// for it.
func serve(t *testing.T, handler func() error) Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if err := handler(); err != nil {
			return err
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return Config{Protocol: ProtocolEmpty, Address: listener.Addr().String(), Method: MethodEmpty, Connections: 2, InFlight: 5, Keys: 1}
}

func TestAllCallsAreInFlight(t *testing.T) {
	var arrived atomic.Int64
	all := make(chan struct{})
	c := serve(t, func() error {
		if arrived.Add(1) == 5 {
			close(all)
		}
		<-all
		return nil
	})
	connections, err := connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer connections.close()
	report, err := connections.callFor(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if want := arrived.Load(); report.Each.Count != want || want < 5 {
		t.Errorf("got %d answers to %d calls, want as many, at least 5", report.Each.Count, want)
	}
}

func TestAFailedCallIsAnError(t *testing.T) {
	connections, err := connect(t.Context(), serve(t, func() error { return status.Error(codes.Unavailable, "no") }))
	if err != nil {
		t.Fatal(err)
	}
	defer connections.close()
	if report, err := connections.callFor(time.Millisecond); err == nil {
		t.Errorf("got %+v, want the error of the server", report)
	}
}

func TestTheEmptyServerAnswersUntilTheContextEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServeEmpty(ctx, listener) }()
	connections, err := connect(t.Context(), Config{
		Protocol: ProtocolEmpty, Address: listener.Addr().String(), Method: MethodEmpty, Connections: 1, InFlight: 1, Keys: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer connections.close()
	if _, err := connections.callFor(time.Millisecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
