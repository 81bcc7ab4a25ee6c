package etcdproc

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/test/poll"
)

// Snapshot saves a snapshot of a running member, as "etcdctl snapshot save" does, and
// returns its path.
func (m *Member) Snapshot(t testing.TB) string {
	t.Helper()
	return Snapshot(t, m.Address)
}

// Snapshot saves a snapshot of the etcd at the address, and returns its path.
func Snapshot(t testing.TB, address string) string {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	data, err := client.Snapshot(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, data); err != nil {
		t.Fatal(err)
	}
	return path
}

// Restore replaces the data of a stopped member by a snapshot, as "etcdutl snapshot
// restore" does with these flags. The cluster keeps its id. In a larger cluster, restore
// all members before starting one.
func (m *Member) Restore(t testing.TB, snapshot string, flags ...string) {
	t.Helper()
	m.remove(t)
	i := slices.Index(m.args, "--initial-cluster")
	restore(t, snapshot, slices.Concat(m.identity(m.args[i+1]), flags))
}

// Restore creates a data directory from a snapshot, as "etcdutl snapshot restore" does
// without flags.
func Restore(t testing.TB, snapshot, dir string) {
	t.Helper()
	restore(t, snapshot, []string{"--data-dir", dir})
}

func restore(t testing.TB, snapshot string, flags []string) {
	t.Helper()
	args := append([]string{"etcdutl", "snapshot", "restore", snapshot}, flags...)
	if out, err := exec.Command(etcd.Path(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Copy returns a copy of the data directory of a stopped member.
func (m *Member) Copy(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	copyDir(t, to, m.dir)
	return to
}

// PutBack replaces the data of a stopped member by an earlier copy.
func (m *Member) PutBack(t testing.TB, dir string) {
	t.Helper()
	m.remove(t)
	copyDir(t, m.dir, dir)
}

func (m *Member) remove(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t testing.TB, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
