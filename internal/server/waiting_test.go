package server_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestNoWriteIsLostWhenWaitingEnds ends a server that waits while clients write. Each write is refused, or waits for the
// next server: none has an unknown outcome.
func TestNoWriteIsLostWhenWaitingEnds(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := server.NewWaiting(server.WaitingConfig{
		For: func() string { return "node-2" }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var serving, writing sync.WaitGroup
	serving.Go(func() {
		if err := waiting.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	health, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := health.Recv(); err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("got %v, %v", answer, err)
	}

	const writers = 8
	refused := make(chan struct{}, 1)
	for range writers {
		writing.Go(func() {
			for {
				_, err := fanoutv1.NewStoreServiceClient(conn).Put(ctx, &fanoutv1.PutRequest{Resource: "config"})
				if reasonOf(err) != "CLUSTER_FORMING" {
					if status.Code(err) != codes.Canceled {
						t.Errorf("a write: %v", err)
					}
					return
				}
				select {
				case refused <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 10 * writers {
		<-refused
	}
	waiting.Stop()
	if answer, err := health.Recv(); err == nil {
		t.Errorf("the stream of health goes on: %v", answer)
	}
	cancel()
	writing.Wait()
	serving.Wait()
}
