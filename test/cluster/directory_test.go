package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// While a server waits for others, its directory is in use: a restore into it is refused, because the server has already
// seen that it is empty, and would ignore the data. Afterwards, it is not in use.
func TestRestoreBesideAServerThatWaits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	single := testConfig(t)
	single.EmbeddedEtcdListen = loopback.FreeAddress(t)
	source := launch(t, single)
	source.put(t, "app/limits", "1")
	backup := etcdproc.Snapshot(t, single.EmbeddedEtcdListen)
	source.stop(t)

	configs := machines(t, "node-1", "node-2", "node-3")
	cfg := configs["node-1"]
	m := launch(t, cfg)
	m.says(t, "waiting for")
	if _, err := app.Restore(t.Context(), cfg, backup, quiet); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("beside a server that waits: got %v", err)
	}
	m.cancel()
	<-m.done
	if done, err := app.Restore(t.Context(), cfg, backup, quiet); err != nil || done.Keys == 0 {
		t.Fatalf("after it has stopped: got %+v, %v", done, err)
	}

	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		if got := m.get(t, "app/limits"); got != "1" {
			t.Errorf("got %q", got)
		}
	}
	stopAll(t, running)
}

// Root leaves no file that the user of the server cannot read.
func TestFormAsAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	cfg := machines(t, "node-1", "node-2", "node-3")["node-1"]
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	const file, other = "cluster-without", 1234
	if err := app.FormWithout(cfg, []string{"node-3"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cfg.DataDir, file)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(cfg.DataDir, other, other); err != nil {
		t.Fatal(err)
	}
	if err := app.FormWithout(cfg, []string{"node-3"}); err == nil || !strings.Contains(err.Error(), "sudo -u '#1234'") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, file)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: got %v", err)
	}
}

// A server removes the copy of its data that "fanoutd recover" has left when it was killed.
func TestCopyOfAKilledRecoveryIsRemoved(t *testing.T) {
	cfg := testConfig(t)
	left := filepath.Join(cfg.DataDir, "etcd.replaying")
	if err := os.MkdirAll(filepath.Join(left, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, stop := start(t, cfg)
	defer stop()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy: got %v", err)
	}
}
