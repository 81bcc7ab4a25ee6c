package failures

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestDiskFull fills the disk of etcd: writes fail with a clear status, and reads and watches
// continue. Writes work again when there is space.
func TestDiskFull(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	etcdAddress := loopback.FreeAddress(t)
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir, "--embedded-etcd-quota", "16MiB", "--embedded-etcd-listen", etcdAddress)
	ctx := contextFor(t)
	s := newSubscriber("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	put := func(key, value string) (object.Revision, error) {
		resp, err := f.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
			Key: key, Value: &fanoutv1.PutOperation_Text{Text: value},
		}})
		return object.Revision(resp.GetRevision()), err
	}
	large := strings.Repeat("x", 1_000_000)
	written := 0
	for ; ; written++ {
		if _, err := put(fmt.Sprintf("large/%d", written), large); err != nil {
			if status.Code(err) != codes.ResourceExhausted || reasonOf(err) != "STORE_FULL" {
				t.Fatalf("a write to a full disk: got %v", err)
			}
			break
		}
	}
	if _, err := put("small", "v"); reasonOf(err) != "STORE_FULL" {
		t.Errorf("another write: %v", err)
	}

	// Reads continue, including linearizable ones.
	list, err := f.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1})
	if err != nil || len(list.GetObjects()) != 1 {
		t.Errorf("got %d objects in a list, %v", len(list.GetObjects()), err)
	}
	// So do existing and new watches. A deletion frees space, and etcd does not refuse
	// it.
	deleted, err := f.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: "large/0"}})
	if err != nil {
		t.Fatalf("a deletion: %v", err)
	}
	s.reach(t, object.Revision(deleted.GetRevision()))
	newcomer := newSubscriber("newcomer")
	newcomer.subscribe(t, f.reads)
	newcomer.until(t, object.Synced)
	if n := len(newcomer.state()); n < written-1 {
		t.Errorf("got %d objects in a new watch, want %d", n, written-1)
	}
	// A restart of fanoutd does not change this.
	f.end(t, syscall.SIGTERM)
	f.start(t)
	if _, err := put("small", "v"); reasonOf(err) != "STORE_FULL" {
		t.Errorf("a write after a restart: %v", err)
	}
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	client := dialEtcd(t, etcdAddress)
	if _, err := client.Delete(ctx, etcdPrefix+"large/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	now, err := client.Get(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(ctx, now.Header.GetRevision(), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(ctx, etcdAddress); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	at, err := put("small", "v")
	if err != nil {
		t.Fatalf("a write when there is space again: %v", err)
	}
	s.reach(t, at)
	s.caughtUp(t, object.Reset, object.Replay)
}
