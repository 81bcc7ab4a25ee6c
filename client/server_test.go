package client_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// patience bounds what a test waits for: it is how long a broken one takes to fail.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// server is a fanoutd of its own with an etcd in it. It can be stopped and started
// again, with the same data and at the same address.
type server struct {
	cfg  config.Config
	stop func() // returns when nothing of it is left
}

func (s *server) address() string { return s.cfg.Listen }

// newServer starts a server with some settings changed.
func newServer(t *testing.T, change ...func(*config.Config)) *server {
	t.Helper()
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen = loopback.FreeAddress(t), ""
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	cfg.ShutdownGrace = config.Duration(5 * time.Second)
	for _, c := range change {
		c(&cfg)
	}
	s := &server{cfg: cfg}
	s.start(t)
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.Build(ctx, s.cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("the server: %v", err)
		}
	}()
	s.stop = func() {
		cancel()
		<-done
	}
}

// newClient returns a client of some addresses.
func newClient(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newResource returns the resource of a server of its own.
func newResource(t *testing.T) *client.Resource {
	t.Helper()
	return newClient(t, newServer(t).address()).Resource("config")
}

// listen returns a listener on this machine.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// put stores a text.
func put(t *testing.T, r *client.Resource, key, text string) int64 {
	t.Helper()
	revision, err := r.Put(within(t), key, client.Text(text))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}
