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

	"github.com/fanoutd/fanoutd/test/race"
)

// TestLargeValues writes large values again and again. Memory and disk are bounded by bytes,
// while the server runs and after a restart. docs/tasks/operate.md has the figures of a run.
func TestLargeValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir, "--max-value-size", "1472KiB")
	empty := measure(t, f, dir)
	value := strings.Repeat("x", 1<<20)
	puts := 700
	if race.Enabled {
		puts = 400 // more than the log may hold
	}
	for i := range puts {
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
	t.Logf("empty %v; after %d MiB %v; after a restart, which took %v, %v", empty, puts, written, took.Round(time.Millisecond), restarted)
	// About half as much again as in docs/tasks/operate.md, for a busy machine.
	for when, c := range map[string]struct{ got, most usage }{
		"after the puts":  {written, usage{heap: 450, resident: 1600, log: 260, disk: 1600}},
		"after a restart": {restarted, usage{heap: 300, resident: 1600, log: 260, disk: 1600}},
	} {
		if race.Enabled {
			c.most.heap, c.most.resident = 3*c.most.heap, 3*c.most.resident // the detector needs that much
		}
		if c.got.heap > c.most.heap || c.got.resident > c.most.resident || c.got.log > c.most.log || c.got.disk > c.most.disk {
			t.Errorf("%s: got %v, want at most %v", when, c.got, c.most)
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
