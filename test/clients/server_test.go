package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// The resources have the raw codec, so that the writer can write their values to etcd.
// The cached resource has a short window and few tombstones, so that returning watches
// often need a DELTA or a RESET.
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

// etcdPrefix returns the prefix of the keys of a resource in etcd.
func etcdPrefix(resource string) string { return "/fanoutd/" + resource + "/" }

// server is a fanoutd process that is restarted at the same address. Only one goroutine
// may call its methods.
type server struct {
	address string
	args    []string
	log     *os.File
	cmd     *exec.Cmd
}

// startServer starts fanoutd over an etcd and waits until it serves requests.
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
		text, err := os.ReadFile(log.Name())
		if err != nil || strings.Contains(string(text), "panic") || strings.Contains(string(text), "DATA RACE") {
			t.Errorf("the log of the server has a panic or a race, or cannot be read: %v\n%s", err, text)
		} else if t.Failed() {
			t.Logf("log of the server at %s:\n%s", s.address, text)
		}
	})
	s.start(t)
	return s
}

// start starts the process and waits until it serves requests.
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
	ctx := poll.Context(t)
	for {
		_, err := c.Resource(cached).ListPage(ctx, client.PageSize(1))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// end sends the signal and waits for the end of the process.
func (s *server) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		return // it has already ended
	}
	_ = s.cmd.Wait()
}
