package client_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	return poll.Context(t)
}

// newServer starts a server with an embedded etcd and some settings changed.
func newServer(t *testing.T, change ...func(*config.Config)) *inprocess.Server {
	t.Helper()
	cfg := inprocess.Config(t)
	for _, c := range change {
		c(&cfg)
	}
	return inprocess.Start(t, cfg)
}

// newClient returns a client that is closed when the test ends.
func newClient(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(target, append(opts, client.WithDialOptions(grpc.WithChainStreamInterceptor(refuseSubscribe)))...)
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

// newResource starts a server and returns its resource.
func newResource(t *testing.T) *client.Resource {
	t.Helper()
	return newClient(t, newServer(t).Address()).Resource("config")
}

// listen returns a listener on this machine.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// put stores text and returns the revision.
func put(t *testing.T, r *client.Resource, key, text string) int64 {
	t.Helper()
	revision, err := r.Put(testContext(t), key, client.Text(text))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}
