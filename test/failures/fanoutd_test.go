package failures

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func contextFor(t testing.TB) context.Context {
	return poll.Context(t)
}

// resource is the only resource, and etcdPrefix is its prefix in etcd.
const (
	resource   = "config"
	etcdPrefix = "/fanoutd/config/"
)

// instance is a fanoutd process that can be restarted.
type instance struct {
	address string
	program string // empty: what is built from this source
	args    []string
	conn    *grpc.ClientConn
	reads   fanoutv1.FanoutServiceClient
	writes  fanoutv1.StoreServiceClient

	log    logs.Buffer // of all its processes
	cmd    *exec.Cmd
	pid    atomic.Int64  // of the last process
	exited chan struct{} // closed when the process has exited
}

// startFanoutd starts fanoutd with these arguments and waits until it serves.
func startFanoutd(t *testing.T, args ...string) *instance {
	t.Helper()
	s := newInstance(t, settings(t), args...)
	s.start(t)
	s.endWith(t)
	return s
}

// newInstance returns a fanoutd that has not been started.
func newInstance(t *testing.T, config string, args ...string) *instance {
	t.Helper()
	s := &instance{address: loopback.FreeAddress(t)}
	s.args = append([]string{"--config", config, "--listen", s.address, "--admin-listen", ""}, args...)
	s.conn = dial(t, s.address)
	s.reads, s.writes = fanoutv1.NewFanoutServiceClient(s.conn), fanoutv1.NewStoreServiceClient(s.conn)
	return s
}

// endWith ends the process with the test.
func (s *instance) endWith(t *testing.T) {
	t.Cleanup(func() {
		s.end(t, os.Kill)
		for _, trouble := range []string{"WARNING: DATA RACE", "panic"} {
			if strings.Contains(s.log.String(), trouble) {
				t.Errorf("the log of fanoutd contains %q", trouble)
			}
		}
		if t.Failed() {
			t.Logf("log of fanoutd:\n%s", s.log.String())
		}
	})
}

// settings returns the path of a configuration file with the raw codec.
func settings(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	text := fmt.Sprintf("resources:\n  - name: %s\n    prefix: %s\n    codec: raw\n", resource, etcdPrefix)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// over returns the arguments for an etcd at these addresses.
func over(addresses ...string) []string {
	return []string{"--etcd-endpoints", strings.Join(addresses, ",")}
}

// dial returns a connection that survives restarts of the server.
func dial(t *testing.T, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 10 * time.Second,
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// start starts the process, and returns when it serves.
func (s *instance) start(t *testing.T) {
	t.Helper()
	s.launch(t)
	s.serves(t)
}

// launch starts the process.
func (s *instance) launch(t *testing.T) {
	t.Helper()
	program := s.program
	if program == "" {
		program = fanoutdproc.Program(t)
	}
	s.cmd = exec.Command(program, s.args...)
	s.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANOUTD_") })
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid.Store(int64(s.cmd.Process.Pid))
	cmd, exited := s.cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.exited = exited
}

// serves waits until the process serves.
func (s *instance) serves(t *testing.T) {
	t.Helper()
	for _, service := range []string{"", "resource/" + resource} {
		s.await(t, service, healthv1.HealthCheckResponse_SERVING)
	}
}

// end sends the signal and waits for the process to exit. If it has already exited, end has
// no effect.
func (s *instance) end(t *testing.T, signal os.Signal) {
	t.Helper()
	select {
	case <-s.exited:
		return
	default:
	}
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Logf("end fanoutd: %v", err) // it has exited meanwhile
	}
	<-s.exited
}

// await waits for a health status of a service.
func (s *instance) await(t *testing.T, service string, want healthv1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	ctx := contextFor(t)
	for {
		stream, err := healthv1.NewHealthClient(s.conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: service})
		for err == nil {
			var answer *healthv1.HealthCheckResponse
			if answer, err = stream.Recv(); err == nil && answer.GetStatus() == want {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the health of %q is not %v: %v", service, want, err)
		}
	}
}
