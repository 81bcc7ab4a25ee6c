package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/kept"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestDataDirectoryIsHeldByOneProcess checks that a second process on the same data
// directory fails at once, instead of waiting for the first to exit.
func TestDataDirectoryIsHeldByOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := startServer(t, embedded(t, loopback.FreeAddress(t))...)
	dataDir := ""
	for i, arg := range s.args {
		if arg == "--data-dir" {
			dataDir = s.args[i+1]
		}
	}
	second := start(t, filepath.Join(kept.Dir(t), "second.log"), fanoutdproc.Program(t),
		"--listen", loopback.FreeAddress(t), "--admin-listen", "", "--data-dir", dataDir)
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	code, err := second.wait(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(second.output(t)))
	}
	said := second.output(t)
	if code <= 0 {
		t.Errorf("got exit code %d", code)
	}
	if !strings.Contains(said, dataDir) || !strings.Contains(said, "in use by process") {
		t.Errorf("the message does not name the process that holds %s:\n%s", dataDir, said)
	}
	put(t, s.conn, "key", []byte("the first goes on"))
}
