package failures

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// A restore that replaces data and is killed leaves the former data, the new one, or a directory in which no server starts.
// The former data is never lost.
func TestKilledReplacement(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	etcd := loopback.FreeAddress(t)
	source := startFanoutd(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--embedded-etcd-listen", etcd)
	want := map[string]string{}
	for i := range 100 {
		key, value := fmt.Sprintf("key/%03d", i), strings.Repeat("a", 20_000)
		if err := source.put(t, key, value); err != nil {
			t.Fatal(err)
		}
		want[key] = value
	}
	backup := etcdproc.Snapshot(t, etcd)
	source.end(t, syscall.SIGTERM)

	f := startFanoutd(t, "--data-dir", filepath.Join(t.TempDir(), "data"))
	if err := f.put(t, "key/former", "v"); err != nil {
		t.Fatal(err)
	}
	former := map[string]string{"key/former": "v"}
	f.end(t, syscall.SIGTERM)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(f.dataDir())); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	f.runs(t, "restore", "--replace", backup)
	whole := time.Since(began)
	const attempts = 12
	for i := range attempts {
		if err := os.RemoveAll(f.dataDir()); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(f.dataDir(), os.DirFS(kept)); err != nil {
			t.Fatal(err)
		}
		f.killed(t, whole*time.Duration(i)/attempts, "restore", "--replace", backup)
		if left, _ := filepath.Glob(filepath.Join(f.dataDir(), "etcd.restor*")); len(left) > 0 {
			status, output := runFanoutd(t, "--data-dir", f.dataDir())
			wantOneLine(t, status, output, "was interrupted: run it again")
		} else {
			f.start(t)
			if got := f.state(t); !maps.Equal(got, want) && !maps.Equal(got, former) {
				t.Errorf("a server has %d objects, want %d or the former one", len(got), len(want))
			}
			f.end(t, os.Kill)
		}
		f.runs(t, "restore", "--replace", backup)
		if _, err := os.Stat(filepath.Join(f.dataDir(), "etcd.before-restore", "member", "snap", "db")); err != nil {
			t.Errorf("the former data: %v", err)
		}
	}
	f.start(t)
	if got := f.state(t); !maps.Equal(got, want) {
		t.Errorf("a server has %d objects, want %d", len(got), len(want))
	}
	f.end(t, syscall.SIGTERM)
	// What was replaced is a whole data directory.
	if err := os.Rename(filepath.Join(f.dataDir(), "etcd"), filepath.Join(f.dataDir(), "etcd.new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(f.dataDir(), "etcd.before-restore"), filepath.Join(f.dataDir(), "etcd")); err != nil {
		t.Fatal(err)
	}
	f.start(t)
	if got := f.state(t); !maps.Equal(got, former) {
		t.Errorf("the former data has %d objects", len(got))
	}
	f.end(t, syscall.SIGTERM)
}
