package etcdproc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long etcd may take to be ready. It is long because it only matters
// when something is broken, or the machine is very busy.
const patience = 2 * time.Minute

// readiness is told when an etcd is ready, in the way that systemd has defined.
type readiness struct {
	*net.UnixConn
	path string
}

func newReadiness(t testing.TB) *readiness {
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
	return &readiness{conn, path}
}

// variable is what tells etcd whom to tell.
func (r *readiness) variable() string { return "NOTIFY_SOCKET=" + r.path }

// wait returns when etcd is ready, or why it will not be.
func (r *readiness) wait() error {
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	message := make([]byte, 64)
	n, err := r.Read(message)
	if err != nil {
		return err
	}
	if !bytes.Contains(message[:n], []byte("READY=1")) {
		return fmt.Errorf("it said %q", message[:n])
	}
	return nil
}
