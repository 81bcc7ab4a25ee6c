package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/kept"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// resource is the default resource of fanoutd, and etcdPrefix is its prefix in
// etcd.
const (
	resource   = "config"
	etcdPrefix = "/fanoutd/config/"
)

// server is a fanoutd process that can be restarted with the same arguments and at the
// same address.
type server struct {
	*process
	address string
	log     string
	args    []string
	conn    *grpc.ClientConn
}

// startServer starts fanoutd and waits until it serves.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{address: loopback.FreeAddress(t), log: filepath.Join(kept.Dir(t), "fanoutd.log")}
	s.args = append([]string{"--listen", s.address, "--admin-listen", ""}, args...)
	s.conn = dial(t, s.address)
	t.Cleanup(func() { s.inspectLog(t) })
	s.start(t)
	return s
}

// embedded returns the arguments for a server with an embedded etcd that listens at the
// address.
func embedded(t *testing.T, address string) []string {
	return []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--embedded-etcd-listen", address}
}

// start starts fanoutd again, and waits until it serves.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.process = start(t, s.log, fanoutdproc.Program(t), s.args...)
	ctx := poll.Context(t)
	for _, service := range []string{"", "resource/" + resource} {
		if err := s.serving(ctx, service); err != nil {
			t.Fatalf("%v\n%s", err, tail(s.output(t)))
		}
	}
}

// end sends the signal and waits for the process to exit.
func (s *server) end(t *testing.T, signal os.Signal) {
	t.Helper()
	s.signal(t, signal)
	ctx := poll.Context(t)
	code, err := s.wait(ctx)
	if err != nil {
		t.Fatalf("after %v: %v\n%s", signal, err, tail(s.output(t)))
	}
	if signal != os.Kill && code != 0 {
		t.Fatalf("exit code %d after %v\n%s", code, signal, tail(s.output(t)))
	}
}

// serving waits until the health of a service is SERVING.
func (s *server) serving(ctx context.Context, service string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Use the process of now: a test may start another one meanwhile.
	p := s.process
	go func() {
		select {
		case <-p.exited:
			cancel(fmt.Errorf("the server has exited: %v", p.cmd.ProcessState))
		case <-ctx.Done():
		}
	}()
	for {
		health, err := healthv1.NewHealthClient(s.conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: service})
		if err == nil {
			err = awaitStatus(health, healthv1.HealthCheckResponse_SERVING)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %q to be served: %w", service, errors.Join(context.Cause(ctx), err))
		}
		// The answer may come from a server that is about to exit.
	}
}

// inspectLog fails the test if the log has a panic or a data race. It prints the end of the
// log if the test has failed.
func (s *server) inspectLog(t *testing.T) {
	log := s.output(t)
	for _, trouble := range []string{"WARNING: DATA RACE", "panic"} {
		if strings.Contains(log, trouble) {
			t.Errorf("the log of the server contains %q", trouble)
		}
	}
	if t.Failed() {
		t.Logf("the end of %s:\n%s", s.log, tail(log))
	}
}
