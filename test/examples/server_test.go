package examples

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// server is a fanoutd with an embedded etcd, behind a link. It can be restarted at the
// same address.
type server struct {
	*process
	*link  // for subscribers
	args   []string
	direct string // its own address
	conn   *grpc.ClientConn
}

// configuration has the default resource, and one with so short a window that a returning
// subscriber gets a DELTA.
const configuration = `
resources:
  - name: config
  - name: forgetful
    window: {min-events: 1, max-events: 2}
`

// startServer starts fanoutd and waits until it is ready.
func startServer(t *testing.T) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fanoutd.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{direct: loopback.FreeAddress(t)}
	s.args = []string{fanoutdproc.Program(t), "--config", file, "--listen", s.direct, "--admin-listen", "", "--data-dir", filepath.Join(t.TempDir(), "data")}
	s.link = newLink(t, s.direct)
	s.start(t)
	return s
}

// start starts or restarts fanoutd and waits until it is ready.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.process = start(t, io.Discard, s.args...)
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient(s.direct,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.conn = conn

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	health, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	for {
		if err != nil {
			t.Fatalf("wait for the server: %v", err)
		}
		var answer *healthv1.HealthCheckResponse
		if answer, err = health.Recv(); answer.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return
		}
	}
}

// put stores texts: a key, its text, the next key and so on. Each write has a revision of
// its own.
func (s *server) put(t *testing.T, resource string, keysAndTexts ...string) {
	t.Helper()
	for pair := range slices.Chunk(keysAndTexts, 2) {
		s.putTogether(t, resource, pair...)
	}
}

// putTogether is put with one revision for all writes.
func (s *server) putTogether(t *testing.T, resource string, keysAndTexts ...string) {
	t.Helper()
	request := &fanoutv1.TransactRequest{Resource: resource}
	for pair := range slices.Chunk(keysAndTexts, 2) {
		put := &fanoutv1.PutOperation{Key: pair[0], Value: &fanoutv1.PutOperation_Text{Text: pair[1]}}
		request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: put}})
	}
	if _, err := fanoutv1.NewStoreServiceClient(s.conn).Transact(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

func (s *server) delete(t *testing.T, resource, key string) {
	t.Helper()
	operation := &fanoutv1.DeleteOperation{Key: key}
	_, err := fanoutv1.NewStoreServiceClient(s.conn).Delete(t.Context(), &fanoutv1.DeleteRequest{Resource: resource, Delete: operation})
	if err != nil {
		t.Fatal(err)
	}
}

// list returns the objects below a prefix.
func (s *server) list(t *testing.T, resource, prefix string) *fanoutv1.ListResponse {
	t.Helper()
	all, err := fanoutv1.NewFanoutServiceClient(s.conn).List(t.Context(), &fanoutv1.ListRequest{
		Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: prefix}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
