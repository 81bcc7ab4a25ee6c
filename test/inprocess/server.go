// Package inprocess runs a whole fanoutd inside the process of a test.
package inprocess

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// Config returns the default settings with changes for a test: a free address, no admin
// port, an embedded etcd in the test's own folder, and a short grace period.
func Config(t testing.TB) config.Config {
	t.Helper()
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen = loopback.FreeAddress(t), ""
	cfg.DataDir, cfg.EmbeddedEtcdUnsafe = filepath.Join(t.TempDir(), "data"), true
	cfg.ShutdownGrace = config.Duration(5 * time.Second)
	return cfg
}

// Server is a fanoutd that can be stopped and started again with the same data and at the
// same address. Only one goroutine at a time may call its methods.
type Server struct {
	cfg  config.Config
	log  *slog.Logger
	stop func()
}

// Start starts a server without a log. It stops when the test ends.
func Start(t testing.TB, cfg config.Config) *Server {
	t.Helper()
	return StartLogging(t, cfg, slog.New(slog.DiscardHandler))
}

// StartLogging starts a server with a log. It stops when the test ends.
func StartLogging(t testing.TB, cfg config.Config, log *slog.Logger) *Server {
	t.Helper()
	s := &Server{cfg: cfg, log: log}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Address returns the address at which the server listens.
func (s *Server) Address() string { return s.cfg.Listen }

// Start starts a server that was stopped.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.Build(ctx, s.cfg, s.log)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("run the server: %v", err)
		}
	}()
	s.stop = func() {
		cancel()
		<-done
	}
}

// Stop stops the server and waits until all its goroutines have ended. Stopping a stopped
// server has no effect.
func (s *Server) Stop() { s.stop() }
