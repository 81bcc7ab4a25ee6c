package failures

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLargeValues writes large values again and again. Memory and disk are bounded by bytes,
// while the server runs and after a restart.
func TestLargeValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir, "--max-value-size", "1472KiB")
	empty := measure(t, f, dir)
	value := strings.Repeat("x", 1<<20)
	for i := range 700 {
		if err := f.put(t, strconv.Itoa(i%10), strconv.Itoa(i)+value); err != nil {
			t.Fatal(err)
		}
	}
	written := measure(t, f, dir)
	f.end(t, syscall.SIGKILL)
	began := time.Now()
	f.start(t)
	took := time.Since(began)
	restarted := measure(t, f, dir)
	t.Logf("empty %v; after 700 MiB %v; after a restart, which took %v, %v", empty, written, took.Round(time.Millisecond), restarted)
	// 10 objects, and a window and a log of 64 MiB each. The collector keeps as much again.
	for when, u := range map[string]usage{"after 700 puts": written, "after a restart": restarted} {
		if u.heap > 1000 {
			t.Errorf("%s: the process has %d MiB of memory of its own, want at most 1000", when, u.heap)
		}
		if u.log > 400 {
			t.Errorf("%s: the write-ahead log has %d MiB, want at most 400", when, u.log)
		}
	}
}

// usage is what a server uses, in MiB.
type usage struct {
	heap     int64 // resident memory apart from files
	resident int64 // resident memory, with the parts of files that the kernel caches
	log      int64 // on disk, of the write-ahead log
	disk     int64 // of the whole data directory
}

func (u usage) String() string {
	return fmt.Sprintf("%d MiB of its own, %d MiB resident, %d MiB of log, %d MiB of disk", u.heap, u.resident, u.log, u.disk)
}

func measure(t *testing.T, f *instance, dir string) usage {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) int64 {
		_, rest, _ := strings.Cut(string(status), name+":")
		kibibytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kibibytes >> 10
	}
	return usage{
		heap: field("RssAnon"), resident: field("VmRSS"),
		log: diskUsage(t, filepath.Join(dir, "etcd/member/wal")) >> 20, disk: diskUsage(t, dir) >> 20,
	}
}

// diskUsage returns the space that the files below a folder occupy.
func diskUsage(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err == nil { // etcd may have removed it
			bytes += s.Blocks * 512
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
