package client_test

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Each client talks to its own server, and one of the servers cannot be reached.
func TestEachServer(t *testing.T) {
	t.Parallel()
	writes, reads := newServer(t), newServer(t, func(c *config.Config) { c.Writes = false })
	servers, err := client.EachServer(testContext(t), writes.Address()+", "+reads.Address()+",127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() { s.Close() })
	}
	if len(servers) != 3 || servers[0].Address != writes.Address() || servers[1].Address != reads.Address() || servers[2].Address != "127.0.0.1:1" {
		t.Fatalf("got %v", servers)
	}
	for range 4 {
		if _, _, err := servers[0].Resource("config").Delete(testContext(t), "a"); err != nil {
			t.Errorf("got %v", err)
		}
		if _, _, err := servers[1].Resource("config").Delete(testContext(t), "a"); status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	}
	if _, _, err := servers[2].Resource("config").Delete(testContext(t), "a"); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	for _, target := range []string{"", "localhost"} {
		if _, err := client.EachServer(testContext(t), target); err == nil {
			t.Errorf("%q was accepted as a target", target)
		}
	}
}

func TestEachServerOfAUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer() // without any services
	served := make(chan error, 1)
	go func() { served <- s.Serve(socket) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	servers, err := client.EachServer(testContext(t), "unix://"+path)
	if err != nil || len(servers) != 1 {
		t.Fatal(servers, err)
	}
	t.Cleanup(func() { servers[0].Close() })
	if _, err := servers[0].Resource("config").Get(testContext(t), "a"); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}
