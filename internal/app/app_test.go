package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
)

// No goroutine is left after Run, or after a Build that failed, except one of the library that
// rotates the audit log.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

func testConfig(t *testing.T) config.Config {
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.DataDir, cfg.EmbeddedEtcdUnsafe = filepath.Join(t.TempDir(), "data"), true
	return cfg
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// start runs a server until stop is called.
func start(t *testing.T, cfg config.Config) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	return startWith(t, cfg, testLog(t))
}

func startWith(t *testing.T, cfg config.Config, log *slog.Logger) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	a, err := app.Build(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	conn, err = grpc.NewClient(a.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	return conn, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDataSurvivesRestart(t *testing.T) {
	cfg := testConfig(t)
	conn, stop := start(t, cfg)
	put, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
		Resource: "config",
		Put:      &fanoutv1.PutOperation{Key: "app/limits", Value: &fanoutv1.PutOperation_Text{Text: "1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()

	conn, stop = start(t, cfg)
	defer stop()
	got, err := fanoutv1.NewFanoutServiceClient(conn).Get(t.Context(), &fanoutv1.GetRequest{Resource: "config", Key: "app/limits"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetObject().GetText() != "1" || got.GetObject().GetModRevision() != put.GetRevision() {
		t.Errorf("got %v after a write at revision %d", got, put.GetRevision())
	}
}

func TestStoreServiceCanBeDisabled(t *testing.T) {
	cfg := testConfig(t)
	cfg.Writes = false
	conn, stop := start(t, cfg)
	defer stop()
	_, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{})
	if err == nil {
		t.Error("StoreService is served")
	}
}

func TestHTTPCanBeDisabled(t *testing.T) {
	cfg := testConfig(t)
	cfg.AdminListen = ""
	a, err := app.Build(t.Context(), cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if a.AdminAddr() != nil {
		t.Errorf("HTTP is served at %s", a.AdminAddr())
	}
	stopAtOnce(t, a)
}

// stopAtOnce runs a server with a context that is already canceled.
func stopAtOnce(t *testing.T, a *app.App) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A failure to listen creates no database.
func TestBuildFailsBeforeItCreatesAnything(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, use := range []func(*config.Config){
		func(c *config.Config) { c.Listen = taken.Addr().String() },
		func(c *config.Config) { c.AdminListen = taken.Addr().String() },
	} {
		cfg := testConfig(t)
		use(&cfg)
		if _, err := app.Build(t.Context(), cfg, testLog(t)); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(cfg.DataDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the data directory: %v", err)
		}
	}
}

// When Build fails, it frees the address.
func TestFailedBuildFreesTheAddress(t *testing.T) {
	cfg := testConfig(t)
	if err := os.WriteFile(cfg.DataDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = l.Addr().String()
	l.Close()
	if _, err := app.Build(t.Context(), cfg, testLog(t)); err == nil {
		t.Fatal("Build succeeded with a file as data directory")
	}
	l, err = net.Listen("tcp", cfg.Listen)
	if err != nil {
		t.Fatalf("the address is still in use: %v", err)
	}
	l.Close()
}
