package failures

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// put writes through fanoutd.
func (s *instance) put(t *testing.T, key, text string) error {
	t.Helper()
	_, err := s.writes.Put(contextFor(t), &fanoutv1.PutRequest{
		Resource: resource, Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Data{Data: []byte(text)}},
	})
	return err
}

// TestEmbeddedEtcdRestoredFromABackup backs up and restores the embedded etcd with etcd's own
// tools, as docs/tasks/backup.md describes. A subscriber with an older position receives a
// new snapshot.
func TestEmbeddedEtcdRestoredFromABackup(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	data, etcd := filepath.Join(t.TempDir(), "data"), loopback.FreeAddress(t)
	f := startFanoutd(t, "--data-dir", data, "--embedded-etcd-listen", etcd)
	for key, text := range map[string]string{"kept": "as it was", "changed": "as it was"} {
		if err := f.put(t, key, text); err != nil {
			t.Fatal(err)
		}
	}
	backup := etcdproc.Snapshot(t, etcd)
	for _, key := range []string{"changed", "lost"} {
		if err := f.put(t, key, "lost"); err != nil {
			t.Fatal(err)
		}
	}
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)
	s.leave()
	f.end(t, syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(data, "etcd")); err != nil {
		t.Fatal(err)
	}
	etcdproc.Restore(t, backup, filepath.Join(data, "etcd"))
	f.start(t)

	s.subscribe(t, f.reads)
	s.until(t, object.Synced)
	for _, s := range s {
		if all := s.catchUps(); all[len(all)-1] != object.Reset {
			t.Errorf("%s: got catch-ups %v", s.history.Watcher, all)
		}
		if got, want := s.state(), map[string]string{"kept": "as it was", "changed": "as it was"}; !maps.Equal(got, want) {
			t.Errorf("%s: got state %v, want %v", s.history.Watcher, got, want)
		}
	}
	if err := f.put(t, "new", "written"); err != nil {
		t.Errorf("a write after the restore: %v", err)
	}
}
