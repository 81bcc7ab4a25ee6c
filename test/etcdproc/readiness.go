package etcdproc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/poll"
)

// readiness receives etcd's readiness notification, in systemd's protocol.
type readiness struct {
	*net.UnixConn
	path string
}

func newReadiness(t testing.TB) *readiness {
	t.Helper()
	// The test's own folder may have a path that is too long for a socket.
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

// variable returns the environment variable that tells etcd where to send it.
func (r *readiness) variable() string { return "NOTIFY_SOCKET=" + r.path }

// wait waits until etcd is ready, and returns an error if it will never be.
func (r *readiness) wait() error {
	if err := r.SetReadDeadline(time.Now().Add(poll.Patience)); err != nil {
		return err
	}
	message := make([]byte, 64)
	n, err := r.Read(message)
	if err != nil {
		return err
	}
	if !bytes.Contains(message[:n], []byte("READY=1")) {
		return fmt.Errorf("got notification %q", message[:n])
	}
	return nil
}
