package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/datadir"
)

func createFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file of the log is removed once etcd has saved a snapshot after its entries, and has given
// up its lock. The file of a snapshot may be there although it was not saved: a crash may have
// left it unfinished, and etcd removes it again if the disk is full.
func TestPurgeRemovesFilesBeforeASavedSnapshot(t *testing.T) {
	dir := t.TempDir()
	snapshots := &raftSnapshots{dir: dir, log: slog.New(slog.DiscardHandler)}
	wal := func(name string) string { return filepath.Join(datadir.ToWALDir(dir), name) }
	snap := func(name string) string { return filepath.Join(datadir.ToSnapDir(dir), name) }
	first, second, third := wal("0000000000000000-0000000000000000.wal"), wal("0000000000000001-0000000000000064.wal"), wal("0000000000000002-00000000000000c8.wal")
	for _, path := range []string{first, second, third, snap("0000000000000001-0000000000000080.snap")} {
		createFile(t, path)
	}
	if err := snapshots.begin(&etcdserver.EtcdServer{}); err != nil {
		t.Fatal(err)
	}
	lock, err := fileutil.TryLockFile(first, os.O_WRONLY, fileutil.PrivateFileMode)
	if err != nil {
		t.Fatal(err)
	}
	apply := func() {
		for range lookInterval {
			snapshots.note(entryMessage)
		}
	}
	newer := snap("0000000000000002-0000000000000081.snap")
	for _, step := range []struct {
		what string
		do   func()
		left int
	}{
		{"a snapshot from before the start", apply, 3},
		{"a snapshot that is being written", func() { createFile(t, newer) }, 3},
		{"a snapshot that failed", func() { os.Remove(newer); apply() }, 3},
		{"a saved snapshot, and a lock", func() { createFile(t, newer); apply() }, 3},
		{"a saved snapshot", func() { lock.Close(); apply() }, 2},
		{"the same snapshot", apply, 2},
	} {
		step.do()
		if names, err := directory.LogFiles(datadir.ToWALDir(dir)); err != nil || len(names) != step.left {
			t.Errorf("%s: got %v, %v, want %d files", step.what, names, err, step.left)
		}
	}
}
