package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir, UnsafeNoFsync: true}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openListening opens a store whose etcd serves its own API at an address.
func openListening(t *testing.T, address string) *store.Store {
	t.Helper()
	cfg := store.EmbeddedConfig{Dir: filepath.Join(t.TempDir(), "data"), ListenClient: address, UnsafeNoFsync: true}
	s, err := store.OpenEmbedded(contextFor(t), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEmbeddedStoreKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s := open(t, dir)
	c := s.Plain("test", prefix)
	at := commit(t, c, put("k", "v"))
	epoch, err := c.Epoch(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if _, err := c.Revision(contextFor(t)); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("the revision of a closed store: got %v, want %v", err, object.ErrUnavailable)
	}

	s = open(t, dir)
	defer closeStore(t, s)
	c = s.Plain("test", prefix)
	if got := show(list(t, c, at, 10)); got != "k=v" {
		t.Errorf("got the state %s, want k=v", got)
	}
	if again, err := c.Epoch(contextFor(t)); err != nil || again != epoch {
		t.Errorf("got the epoch %s, %v after a restart, want %s", again, err, epoch)
	}
}

func TestDirectoryBelongsToOneProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	second, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir}, quiet())
	if err == nil {
		closeStore(t, second)
		t.Fatal("a second store opened the directory")
	}
	if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %q, want an error that names the directory as in use", err)
	}
	closeStore(t, s)
	closeStore(t, open(t, dir))
}

func TestFailedStartReleasesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	taken := open(t, filepath.Join(t.TempDir(), "other"))
	defer closeStore(t, taken)
	if _, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir, ListenClient: "nowhere:1"}, quiet()); err == nil {
		t.Fatal("the store listens at nowhere:1")
	}
	// The failed start has released the lock.
	closeStore(t, open(t, dir))

	given, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := store.OpenEmbedded(given, store.EmbeddedConfig{Dir: dir, UnsafeNoFsync: true}, quiet()); err == nil {
		closeStore(t, s) // etcd was ready before it looked at the context
	}
	closeStore(t, open(t, dir))
}

// etcdGrace is how long etcd itself waits for open requests before it stops.
const etcdGrace = 7 * time.Second

// A watch of an etcd client never ends on its own. Close ends it with the status that
// makes the client reconnect, and does not wait for it.
func TestCloseEndsWatchesOfEtcdClients(t *testing.T) {
	address := loopback.FreeAddress(t)
	s := openListening(t, address)
	watch, err := etcdserverpb.NewWatchClient(etcdClient(t, address).ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte("k")}}
	if err := watch.Send(&etcdserverpb.WatchRequest{RequestUnion: create}); err != nil {
		t.Fatal(err)
	}
	if created, err := watch.Recv(); err != nil || !created.GetCreated() {
		t.Fatalf("got %v, %v, want a created watch", created, err)
	}
	closeStore(t, s)
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "server stopped") {
		t.Errorf("the watch ended with %v, want %v", err, rpctypes.ErrGRPCStopped)
	}
}

// A request that does not finish is cut off when the context of Close is done: here a
// snapshot that the client does not read.
func TestCloseIsBoundedByItsContext(t *testing.T) {
	address := loopback.FreeAddress(t)
	s := openListening(t, address)
	c := s.Plain("test", prefix)
	for i := range 8 { // far more than gRPC sends to a client that does not read
		commit(t, c, put(fmt.Sprint(i), strings.Repeat("x", 1<<20)))
	}
	beginSnapshot(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= etcdGrace {
		t.Errorf("Close took %v, want less than etcd's own %v", took, etcdGrace)
	}
}

// beginSnapshot asks etcd for a snapshot, and reads only the beginning.
func beginSnapshot(t *testing.T, address string) {
	t.Helper()
	client := etcdserverpb.NewMaintenanceClient(etcdClient(t, address).ActiveConnection())
	snapshot, err := client.Snapshot(t.Context(), &etcdserverpb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Recv(); err != nil {
		t.Fatal(err)
	}
}

// A defragmentation waits for snapshots, and all writes wait for it. Close ends both.
func TestCloseEndsASnapshotThatADefragmentationWaitsFor(t *testing.T) {
	address := loopback.FreeAddress(t)
	s := openListening(t, address)
	c := s.Plain("test", prefix)
	for i := range 8 {
		commit(t, c, put(fmt.Sprint(i), strings.Repeat("x", 1<<20)))
	}
	beginSnapshot(t, address)
	reclaimed := make(chan error, 1)
	go func() {
		_, err := s.ReclaimSpace(t.Context(), true)
		reclaimed <- err
	}()
	poll.Until(t, "writes wait for the defragmentation", func() bool {
		// A write that waits is what the test waits for.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Commit(ctx, []object.Op{put("k", "v")})
		return errors.Is(err, context.DeadlineExceeded)
	})
	closing, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(closing) }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-contextFor(t).Done():
		t.Fatal("Close waits for the defragmentation, which waits for the snapshot")
	}
	<-reclaimed
}

// etcd writes to the log of the store, with its component name and without warnings.
func TestEmbeddedEtcdUsesTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, listen := range map[string]string{"alone": "", "with clients": loopback.FreeAddress(t)} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			cfg := store.EmbeddedConfig{Dir: filepath.Join(t.TempDir(), "data"), ListenClient: listen}
			s, err := store.OpenEmbedded(contextFor(t), cfg, log)
			if err != nil {
				t.Fatal(err)
			}
			if listen != "" {
				if _, err := etcdClient(t, listen).Get(contextFor(t), "a"); err != nil {
					t.Error(err)
				}
			}
			closeStore(t, s)
			for line := range strings.Lines(out.String()) {
				if !strings.Contains(line, `"component":"etcd"`) {
					t.Errorf("a line of etcd does not name its component: %s", line)
				}
				if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
					t.Errorf("etcd logged a warning or an error without a cause: %s", line)
				}
			}
			if out.Len() == 0 {
				t.Error("etcd logged nothing")
			}
		})
	}
}

// A full etcd accepts writes again after a restart if it has space: because of a larger
// quota, or because deleted objects were compacted. Otherwise it is still full. (Without
// a change of the quota both are possible, because defragmentation closes gaps.)
func TestFullStoreAcceptsWritesAfterARestart(t *testing.T) {
	const quota = 32 << 20
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		quota  int64 // after the restart
		delete bool
		full   bool
	}{
		"larger quota":    {4 * quota, false, false},
		"objects deleted": {quota, true, false},
		"smaller quota":   {quota / 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := store.EmbeddedConfig{
				Dir: filepath.Join(t.TempDir(), "data"), ListenClient: loopback.FreeAddress(t), QuotaBytes: quota, UnsafeNoFsync: true,
			}
			open := func() (*store.Store, *store.Collection) {
				s, err := store.OpenEmbedded(contextFor(t), cfg, quiet())
				if err != nil {
					t.Fatal(err)
				}
				return s, s.Plain("test", prefix)
			}
			s, collection := open()
			written := 0
			var err error
			for ; err == nil; written++ {
				_, err = collection.Commit(contextFor(t), []object.Op{put(fmt.Sprint(written), large)})
			}
			if !errors.Is(err, object.ErrNoSpace) {
				t.Fatal(err)
			}
			if c.delete {
				var at object.Revision
				for i := range written {
					at = commit(t, collection, remove(fmt.Sprint(i)))
				}
				client := etcdClient(t, cfg.ListenClient)
				if _, err := client.Compact(contextFor(t), int64(at), clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
			}
			closeStore(t, s)

			cfg.QuotaBytes = c.quota
			s, collection = open()
			defer closeStore(t, s)
			_, err = collection.Commit(contextFor(t), []object.Op{put("small", "1")})
			if c.full != errors.Is(err, object.ErrNoSpace) || !c.full && err != nil {
				t.Errorf("write after the restart: got %v, want full %t", err, c.full)
			}
		})
	}
}
