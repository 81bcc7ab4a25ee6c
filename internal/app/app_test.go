package app_test

import (
	"context"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server in the directory until the returned function is called.
func start(t *testing.T, dir string) (*grpc.ClientConn, func()) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Listen = "127.0.0.1:0"
	cfg.DataDir = dir
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	a, err := app.Build(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	conn, err := grpc.NewClient(a.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return conn, stop
}

func TestPutThenWatchThenRestartThenResume(t *testing.T) {
	dir := t.TempDir()
	conn, stop := start(t, dir)
	put := func(conn *grpc.ClientConn, key, text string) int64 {
		t.Helper()
		resp, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
			Resource: "config",
			Put:      &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetRevision()
	}
	put(conn, "app/limits", `{"rps":1}`)
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(t.Context(), &fanoutv1.WatchRequest{Resource: "config"})
	if err != nil {
		t.Fatal(err)
	}
	var last *fanoutv1.WatchResponse
	for range 3 {
		if last, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
		t.Log(last)
	}
	put(conn, "app/limits", `{"rps":2}`)
	if last, err = stream.Recv(); err != nil {
		t.Fatal(err)
	}
	t.Log(last)
	position := last.GetPosition()
	put(conn, "app/limits", `{"rps":3}`)
	stop()

	conn, _ = start(t, dir)
	put(conn, "app/limits", `{"rps":4}`)
	stream, err = fanoutv1.NewFanoutServiceClient(conn).Watch(t.Context(), &fanoutv1.WatchRequest{
		Resource: "config", Begin: &fanoutv1.WatchRequest_After{After: position},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if last, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
		t.Log(last)
	}
}
