package rpc

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
	"github.com/fanoutd/fanoutd/test/poll"
)

// busyBudget reports these waits for its turns.
type busyBudget chan time.Duration

func (b busyBudget) AwaitTurn(<-chan struct{}) time.Duration { return <-b }
func (b busyBudget) AbandonStream(string) error              { return nil }

// A client sees how long its request has waited for a turn.
func TestResponsesSayHowLongTheirRequestsHaveWaited(t *testing.T) {
	ctx := poll.Context(t)
	limits := quota.New(quota.Limits{}, slog.New(slog.DiscardHandler))
	waits := make(busyBudget, 2) // the second one is for a busy machine: a burst may end before the second request
	waits <- 20 * time.Millisecond
	waits <- 0
	i := &Interceptors{Limits: limits, Log: slog.New(slog.DiscardHandler)}
	info := &grpc.StreamServerInfo{FullMethod: "/test/Get"}
	options := append(transport.ServerOptions(nil, 1<<20, func(string) frames.Budget { return waits }, nil),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) { return WithStreamContext(ctx), nil }),
		grpc.UnknownServiceHandler(func(srv any, stream grpc.ServerStream) error {
			return i.AdmitRequest(srv, stream, info, func(_ any, stream grpc.ServerStream) error { return stream.SendMsg(&emptypb.Empty{}) })
		}))
	server := grpc.NewServer(options...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for n, want := range [][]string{{"20"}, nil} {
		var header metadata.MD
		if err := conn.Invoke(ctx, info.FullMethod, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		if got := header.Get(waitedHeader); !slices.Equal(got, want) {
			t.Errorf("request %d: got header %v, want %v", n, got, want)
		}
	}
}
