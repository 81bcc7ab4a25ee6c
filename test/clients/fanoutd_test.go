package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// The resources that all is about. Their values are as they are in etcd, so that the
// test can write them there while there is no server. The memory of the first one is
// so short that those who were away are often told differences, or everything; the
// other has none.
const (
	cached   = "config"
	uncached = "plain"
	settings = `
resources:
  - name: config
    codec: raw
    window: {min-events: 200, max-events: 200}
    max-tombstones: 60
  - name: plain
    codec: raw
    cache: off
`
)

// etcdPrefix returns what the keys of a resource begin with in etcd.
func etcdPrefix(resource string) string { return "/fanoutd/" + resource + "/" }

// server is fanoutd as a process that is started again and again at one address.
// Its methods are called by one goroutine.
type server struct {
	address string
	args    []string
	log     *os.File
	cmd     *exec.Cmd
}

// startServer starts fanoutd over an etcd and waits until it serves.
func startServer(t *testing.T, etcd string) *server {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "fanoutd.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: loopback.FreeAddress(t), log: log}
	s.args = []string{"--listen", s.address, "--admin-listen", "", "--etcd-endpoints", etcd, "--config", config, "--shutdown-grace", "2s"}
	t.Cleanup(func() {
		s.end(t, syscall.SIGKILL)
		log.Close()
		said, err := os.ReadFile(log.Name())
		if err != nil || strings.Contains(string(said), "panic") || strings.Contains(string(said), "DATA RACE") {
			t.Errorf("the log of the server, %v:\n%s", err, said)
		}
	})
	s.start(t)
	return s
}

// start starts the process and returns when it serves.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(fanoutdproc.Program(t), s.args...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FANOUTD_") {
			s.cmd.Env = append(s.cmd.Env, entry)
		}
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.address, client.WithDialOptions(grpc.WithDefaultCallOptions(grpc.WaitForReady(true))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := c.Resource(cached).ListPage(ctx, client.PageSize(1))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the server does not serve: %v", err)
		}
	}
}

// end ends the process and waits for it.
func (s *server) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		return // it has ended before
	}
	_ = s.cmd.Wait()
}
