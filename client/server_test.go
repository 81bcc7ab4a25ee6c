package client_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// patience bounds what a test waits for: it is how long a broken one takes to fail.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newServer starts a server of its own with an etcd in it and some settings changed.
func newServer(t *testing.T, change ...func(*config.Config)) *inprocess.Server {
	t.Helper()
	cfg := inprocess.Config(t)
	for _, c := range change {
		c(&cfg)
	}
	return inprocess.Start(t, cfg)
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
	return newClient(t, newServer(t).Address()).Resource("config")
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
