package client_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
)

// TestMain runs the server that the examples use.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanoutd-client-")
	if err != nil {
		log.Fatal(err)
	}
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen, cfg.DataDir, cfg.EmbeddedEtcdUnsafe = "127.0.0.1:0", "", dir, true
	ctx, stop := context.WithCancel(context.Background())
	a, err := app.Build(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		log.Fatal(err)
	}
	address = a.Addr().String()
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	code := m.Run()
	stop()
	if err := <-done; err != nil {
		log.Print(err)
		code = 1
	}
	os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}
