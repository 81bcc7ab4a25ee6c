// Package etcdproc runs etcd as a process of its own, for tests. It is the etcd of
// go.mod, built when the first test needs it.
package etcdproc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/loopback"
)

const (
	program  = "github.com/fanoutd/fanoutd/test/etcd"
	patience = time.Minute // for etcd to be ready
)

// dir holds the program while the tests run.
var dir string

var build = sync.OnceValues(func() (string, error) {
	var err error
	if dir, err = os.MkdirTemp("", "etcdproc-"); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "etcd")
	if out, err := exec.Command("go", "build", "-o", path, program).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd: %w\n%s", err, out)
	}
	return path, nil
})

// Clean removes the program. TestMain calls it when the tests have run.
func Clean() { os.RemoveAll(dir) }

// Start starts an etcd of one member with an empty data directory, with these
// arguments besides those that every test needs, and returns the address at which
// it serves clients. Scheme is http, or https where the arguments say so. The
// process ends with the test.
func Start(t testing.TB, scheme string, args ...string) (address string) {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	ready, socket := readiness(t)
	client, peer := loopback.FreeAddress(t), loopback.FreeAddress(t)
	cmd := exec.Command(path, append([]string{
		"--data-dir", filepath.Join(t.TempDir(), "etcd"),
		"--listen-client-urls", scheme + "://" + client, "--advertise-client-urls", scheme + "://" + client,
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
		"--initial-cluster", "default=http://" + peer,
		"--unsafe-no-fsync", "--log-level", "warn",
	}, args...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
		ready.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("etcd said:\n%s", log.Bytes())
		}
	})
	// etcd says that it is ready in the way that systemd has defined.
	message := make([]byte, 64)
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := ready.Read(message); err != nil || !bytes.Contains(message[:n], []byte("READY=1")) {
		t.Fatalf("etcd is not ready: %q, %v", message[:n], err)
	}
	return client
}

// readiness returns a socket that is told when etcd is ready, and its path.
func readiness(t testing.TB) (*net.UnixConn, string) {
	t.Helper()
	// Not in the test's folder, whose path may be too long for a socket.
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "ready")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	return conn, path
}
