package etcdproc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Snapshot returns the path of a new snapshot of a member that runs, as "etcdctl
// snapshot save" makes it.
func (m *Member) Snapshot(t testing.TB) string {
	t.Helper()
	return Snapshot(t, m.Address)
}

// Snapshot does the same with whatever etcd serves at the address.
func Snapshot(t testing.TB, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	data, err := client.Snapshot(ctx)
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

// Restore makes the data of a member that was ended anew from a snapshot, as
// "etcdutl snapshot restore" does, with its flags: the cluster has the same id as
// before. Of a larger cluster, all members are restored before one is started.
func (m *Member) Restore(t testing.TB, snapshot string, flags ...string) {
	t.Helper()
	m.remove(t)
	i := slices.Index(m.args, "--initial-cluster")
	restore(t, snapshot, slices.Concat(m.identity(m.args[i+1]), flags))
}

// Restore makes a data directory of a snapshot, as "etcdutl snapshot restore" does
// when it is told nothing else.
func Restore(t testing.TB, snapshot, dir string) {
	t.Helper()
	restore(t, snapshot, []string{"--data-dir", dir})
}

func restore(t testing.TB, snapshot string, flags []string) {
	t.Helper()
	args := append([]string{"restore", "--snapshot", snapshot}, flags...)
	if out, err := exec.Command(etcd.Path(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Copy returns a copy of the data directory of a member that was ended.
func (m *Member) Copy(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	copyDir(t, to, m.dir)
	return to
}

// PutBack replaces the data of a member that was ended by a copy that was made
// earlier.
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
