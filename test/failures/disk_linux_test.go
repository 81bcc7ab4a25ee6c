package failures

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sys/unix"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// smallDisk mounts a disk of this size, and returns its folder.
func smallDisk(t *testing.T, mebibytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("fanoutd-test", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes))
	if errors.Is(err, unix.EPERM) {
		t.Skip("only root may mount a small disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
	return dir
}

// fill takes all free space of a disk at once, although others may take some of it meanwhile.
// It creates a file of this name.
func fill(t *testing.T, dir, name string) (remove func()) {
	t.Helper()
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err = unix.ENOSPC; errors.Is(err, unix.ENOSPC); {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			t.Fatal(err)
		}
		if s.Bavail == 0 {
			break
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(s.Bavail)*s.Bsize)
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// diskWriter writes one key again and again.
type diskWriter struct {
	key                 string
	acknowledged, tried int
	refused             int
}

func (w *diskWriter) value(n int) string { return strconv.Itoa(n) + strings.Repeat("x", 20_000) }

// run writes until done is closed. Any error other than STORE_FULL fails the test.
func (w *diskWriter) run(t *testing.T, f *instance, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		w.tried++
		switch err := f.put(t, w.key, w.value(w.tried)); {
		case err == nil:
			w.acknowledged = w.tried
		case reasonOf(err) == "STORE_FULL":
			w.refused++
		default:
			t.Errorf("a put to a full disk: %v", err)
			return
		}
	}
}

// TestDiskFilledByOthers takes all space of the disk while clients write. fanoutd refuses
// writes, continues to serve reads and watches, and recovers without a restart. It loses no
// write that it acknowledged.
func TestDiskFilledByOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	disk := smallDisk(t, 600)
	etcdAddress := loopback.FreeAddress(t)
	f := startFanoutd(t, "--data-dir", filepath.Join(disk, "data"), "--embedded-etcd-listen", etcdAddress)
	etcd := dialEtcd(t, etcdAddress)
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)
	writers := make([]diskWriter, 8)
	for i := range writers {
		writers[i].key = fmt.Sprint("writer/", i)
	}
	for round := range 3 {
		if err := f.put(t, "deleted", fmt.Sprint(round)); err != nil {
			t.Fatalf("round %d: a put to a disk with space: %v", round, err)
		}
		done := make(chan struct{})
		var writing sync.WaitGroup
		for i := range writers {
			writing.Go(func() { writers[i].run(t, f, done) })
		}
		refused := func() bool { return reasonOf(f.put(t, "small", "1")) == "STORE_FULL" }
		remove := fill(t, disk, "most")
		poll.Until(t, "puts are refused", refused)
		close(done)
		writing.Wait()

		// This holds for etcd's own clients, too.
		if _, err := etcd.Put(contextFor(t), "other", "1"); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("round %d: a put of an etcd client: got %v, want %v", round, err, rpctypes.ErrNoSpace)
		}

		// The reserve file makes deletions possible.
		deleted, err := f.writes.Delete(contextFor(t), &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: "deleted"}})
		if err != nil || !deleted.GetDeleted() {
			t.Errorf("round %d: a deletion on a full disk: %v, %v", round, deleted, err)
		}
		s.reach(t, object.Revision(deleted.GetRevision()))
		// Not even that is possible without any space, but reads and watches are.
		fillers := []func(){remove}
		poll.Until(t, "deletions are refused", func() bool {
			fillers = append(fillers, fill(t, disk, fmt.Sprint("rest", len(fillers))))
			_, err := f.writes.Delete(contextFor(t), &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: "none"}})
			return reasonOf(err) == "STORE_FULL"
		})
		if _, err := f.reads.List(contextFor(t), &fanoutv1.ListRequest{Resource: resource, PageSize: 1}); err != nil {
			t.Errorf("round %d: a linearizable list: %v", round, err)
		}
		newcomer := newSubscribers("newcomer")
		newcomer.subscribe(t, f.reads)
		newcomer.until(t, object.Synced)
		newcomer.leave()

		if round == 2 {
			// A server that is killed now starts again, in the space that it held back.
			f.end(t, syscall.SIGKILL)
			f.start(t)
			s.subscribe(t, f.reads)
			s.until(t, object.Synced)
		}
		for _, remove := range fillers {
			remove()
		}
		poll.Until(t, "puts are accepted", func() bool { return f.put(t, "small", "2") == nil })
	}
	for _, w := range writers {
		got, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: w.key})
		if err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(string(got.GetObject().GetData())+got.GetObject().GetText(), "x")
		if n, _ := strconv.Atoi(number); n < w.acknowledged || n > w.tried {
			t.Errorf("%s has the value of put %d, want one from %d to %d", w.key, n, w.acknowledged, w.tried)
		}
		if w.acknowledged == 0 {
			t.Errorf("%s was never written", w.key)
		}
	}
}

// TestDiskFilledByObjects writes objects until the disk is full, deletes most of them, and
// reclaims the space while the server runs.
func TestDiskFilledByObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	disk := smallDisk(t, 512)
	f := startFanoutd(t, "--data-dir", filepath.Join(disk, "data"))
	operator := fanoutv1.NewAdminServiceClient(f.conn)
	for round := range 2 {
		// Values of several sizes leave pages of the database that the next value does not
		// fit into.
		var numbers, written atomic.Int64
		var writing sync.WaitGroup
		for range 8 {
			writing.Go(func() {
				for {
					n := numbers.Add(1)
					switch err := f.put(t, fmt.Sprint(n), strings.Repeat("x", 200_000+int(n%7)*130_000)); {
					case reasonOf(err) == "STORE_FULL":
						return
					case err != nil:
						t.Errorf("round %d: %v", round, err)
						return
					}
					written.Add(1)
				}
			})
		}
		writing.Wait()
		if written.Load() < 40 {
			t.Fatalf("round %d: only %d objects fit on a disk of 512 MiB", round, written.Load())
		}
		for n := range numbers.Load() {
			_, err := f.writes.Delete(contextFor(t), &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: fmt.Sprint(n + 1)}})
			if err != nil {
				t.Fatalf("round %d: deletion %d of %d: %v", round, n+1, numbers.Load(), err)
			}
		}
		done, err := operator.ReclaimSpace(contextFor(t), &fanoutv1.ReclaimSpaceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if done.GetBytes() > done.GetBytesBefore()/2 || done.GetCompactedRevision() == 0 {
			t.Errorf("round %d: got %v, want at most half as much", round, done)
		}
		poll.Until(t, "puts are accepted", func() bool { return f.put(t, "small", "1") == nil })
	}
}

// TestRaftSnapshotOnAFullDisk gives etcd no space for the file of a raft snapshot. fanoutd goes on,
// and keeps the log from which it starts again after a crash.
func TestRaftSnapshotOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	full := smallDisk(t, 1)
	fill(t, full, "all")
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir)
	snapshots := filepath.Join(dir, "etcd/member/snap")
	if err := os.Rename(snapshots, snapshots+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(full, snapshots); err != nil {
		t.Fatal(err)
	}
	// etcd makes a snapshot when its log has become large.
	large := strings.Repeat("x", 1_000_000)
	writes := 0
	for ; writes < 400 && !strings.Contains(f.log.String(), "failed to save snapshot"); writes++ {
		if err := f.put(t, strconv.Itoa(writes%10), strconv.Itoa(writes)+large); err != nil {
			t.Fatalf("put %d: %v", writes, err)
		}
	}
	if writes == 400 {
		t.Fatal("etcd has not tried to make a snapshot")
	}
	if err := f.put(t, "last", "1"); err != nil {
		t.Fatalf("a put after the failed snapshot: %v", err)
	}
	if err := errors.Join(os.Remove(snapshots), os.Rename(snapshots+".away", snapshots)); err != nil {
		t.Fatal(err)
	}
	f.end(t, syscall.SIGKILL)
	f.start(t)
	for n := writes - 10; n < writes; n++ {
		got, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: strconv.Itoa(n % 10)})
		if err != nil {
			t.Fatal(err)
		}
		if number, _, _ := strings.Cut(string(got.GetObject().GetData())+got.GetObject().GetText(), "x"); number != strconv.Itoa(n) {
			t.Errorf("key %d has the value of put %s, want that of put %d", n%10, number, n)
		}
	}
}

// A disk that is too small is one clear line, and status 1.
func TestDiskTooSmallToStart(t *testing.T) {
	disk := smallDisk(t, 24)
	status, output := runFanoutd(t, "--data-dir", filepath.Join(disk, "data"))
	wantOneLine(t, status, output, "free space")
}
