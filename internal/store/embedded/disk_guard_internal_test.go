package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/store/embedded/disk"
	"go.etcd.io/etcd/server/v3/storage/datadir"
)

// newGuard returns a guard of a new data directory, on the disk of the test.
func newGuard(t *testing.T) *diskGuard {
	t.Helper()
	dir := t.TempDir()
	member := filepath.Join(dir, "etcd")
	for _, folder := range []string{datadir.ToWALDir(member), datadir.ToSnapDir(member)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g, err := openDisk(dir, member, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g.begin(func() (file, inUse int64) { return 0, 0 })
	return g
}

func hasReserve(t *testing.T, g *diskGuard) bool {
	t.Helper()
	bytes, _ := disk.Allocated(g.reserve)
	return bytes >= reserveBytes
}

// While a defragmentation uses the space of the reserve file, the guard does not take it back.
func TestLentReserveIsNotCreatedAgain(t *testing.T) {
	g := newGuard(t)
	if !hasReserve(t, g) {
		t.Skip("the disk of the test has no space for a reserve file")
	}
	giveBack := g.lendReserve()
	_ = g.admit(diskCheckBytes + 1)
	if hasReserve(t, g) {
		t.Error("the reserve file was created again while its space was in use")
	}
	giveBack()
	_ = g.admit(diskCheckBytes + 1)
	if !hasReserve(t, g) {
		t.Error("the reserve file was not created again")
	}
}

// A guard does not look at the disk before each small write.
func TestSmallWritesAreAdmittedTogether(t *testing.T) {
	g := newGuard(t)
	if g.state != diskOK {
		t.Skip("the disk of the test has too little space")
	}
	looks := 0
	g.size = func() (file, inUse int64) { looks++; return 0, 0 }
	const bytes = 1 << 10
	for range diskCheckBytes / bytes {
		if err := g.admit(bytes); err != nil {
			t.Fatal(err)
		}
	}
	if looks > 0 {
		t.Errorf("the guard has looked at the disk %d times", looks)
	}
	if err := g.admit(bytes); err != nil || looks == 0 {
		t.Errorf("the guard has not looked at the disk after %d bytes, %v", diskCheckBytes, err)
	}
}

// Writes that were refused do not count as recent writes, and neither does their refusal.
func TestRefusedWritesDoNotCount(t *testing.T) {
	g := newGuard(t)
	const bytes = 1 << 20
	if err := g.admit(bytes); err != nil {
		t.Skip(err)
	}
	if err := os.RemoveAll(datadir.ToWALDir(g.dir)); err != nil {
		t.Fatal(err)
	}
	g.rotated = time.Now().Add(-2 * pendingTime) // the interval ends with the next write
	if err := g.admit(bytes); err == nil {
		t.Fatal("a write was allowed although the next file of the log cannot be created")
	}
	if want := [2]int64{0, bytes}; g.recent != want {
		t.Errorf("got %v bytes of recent writes, want %v", g.recent, want)
	}
}
