package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	address := newServer(t).Address()
	for _, target := range []string{address, "dns:///" + address, "passthrough:///" + address, address + ",127.0.0.1:1", "127.0.0.1:1, " + address} {
		r := newClient(t, target).Resource("config")
		if _, err := r.Get(testContext(t), "a", client.AllowStale()); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: got %v", target, err)
		}
	}
	for _, target := range []string{"", "localhost", "localhost:1,", "http://localhost:1", "localhost:"} {
		if c, err := client.New(target); err == nil {
			c.Close()
			t.Errorf("%q was accepted as a target", target)
		}
	}
}

func TestConnectionsToOtherMachinesAreEncryptedByDefault(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := newServer(t).Address()
	// DNS does not know the name; the dialer maps it to the server.
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
	_, err := newClient(t, "passthrough:///elsewhere.test:1", client.WithDialOptions(dialer)).Resource("config").Get(testContext(t), "a")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "tls") {
		t.Errorf("got %v", err)
	}
	_, err = newClient(t, "passthrough:///elsewhere.test:1", client.WithInsecure(), client.WithDialOptions(dialer)).Resource("config").Get(testContext(t), "a")
	if !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// tokenServer records the tokens of its requests.
type tokenServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
	got []string
}

func (s *tokenServer) Get(ctx context.Context, _ *fanoutv1.GetRequest) (*fanoutv1.GetResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.got = append(s.got, md.Get("authorization")...)
	return &fanoutv1.GetResponse{}, nil
}

// remote is a connection that appears to end on another machine.
type remote struct{ net.Conn }

func (remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// serveTokens runs a token server and returns its address.
func serveTokens(t *testing.T, service *tokenServer, opts ...grpc.ServerOption) string {
	t.Helper()
	listener := listen(t)
	srv := grpc.NewServer(opts...)
	fanoutv1.RegisterFanoutServiceServer(srv, service)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-served
	})
	return listener.Addr().String()
}

// Each server of a list shows a certificate of its own name.
func TestTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	known := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	t.Cleanup(known.Close)
	service := &tokenServer{}
	address := serveTokens(t, service, grpc.Creds(credentials.NewServerTLSFromCert(&known.TLS.Certificates[0])))
	trust := x509.NewCertPool()
	trust.AddCert(known.Certificate())
	for _, target := range []string{address, address + "," + address} {
		service.got = nil
		c := newClient(t, target, client.WithTLS(&tls.Config{RootCAs: trust}), client.WithToken("secret"))
		if _, err := c.Resource("config").Get(testContext(t), "a"); err != nil || len(service.got) != 1 {
			t.Errorf("got %v, and the server got %v", err, service.got)
		}
	}
	for _, config := range []*tls.Config{{}, nil} {
		_, err := newClient(t, address, client.WithTLS(config)).Resource("config").Get(testContext(t), "a")
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	}
}

func TestPlaintextTokensStayOnThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	service := &tokenServer{}
	address := serveTokens(t, service)
	if _, err := newClient(t, address, client.WithToken("secret")).Resource("config").Get(testContext(t), "a"); err != nil {
		t.Fatal(err)
	}
	if len(service.got) != 1 || service.got[0] != "Bearer secret" {
		t.Errorf("the server got %v", service.got)
	}

	away := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return remote{conn}, err
	})
	for name, opts := range map[string][]client.Option{
		"insecure":    {client.WithInsecure(), client.WithDialOptions(away)},
		"own options": {client.WithDialOptions(away, grpc.WithTransportCredentials(insecure.NewCredentials()))},
	} {
		service.got = nil
		_, err := newClient(t, address, append(opts, client.WithToken("secret"))...).Resource("config").Get(testContext(t), "a")
		if status.Code(err) != codes.Unauthenticated || len(service.got) > 0 {
			t.Errorf("%s: got %v, and the server got %v", name, err, service.got)
		}
	}

	failing := client.WithTokenSource(func(context.Context) (string, error) { return "", errors.New("no token today") })
	_, err := newClient(t, address, failing).Resource("config").Get(testContext(t), "a")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no token today") {
		t.Errorf("got %v", err)
	}
}

// When one server stops, the other one answers all reads.
func TestReadsTakeTurnsOverServers(t *testing.T) {
	t.Parallel()
	one, other := newServer(t), newServer(t, func(c *config.Config) { c.Writes = false })
	r := newClient(t, one.Address()+","+other.Address()).Resource("config")
	// Only one of the two servers accepts writes. The test distinguishes them by that.
	seen := map[bool]bool{}
	for len(seen) < 2 {
		_, _, err := r.Delete(testContext(t), "a")
		if err != nil && status.Code(err) != codes.Unimplemented {
			t.Fatal(err)
		}
		seen[err == nil] = true
	}
	one.Stop()
	for range 10 {
		if _, err := r.Get(testContext(t), "a", client.AllowStale()); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}
