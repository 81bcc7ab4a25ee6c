package failures

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// TestQuotaReached fills the database of etcd: writes fail with a clear status, and reads and
// watches continue. Writes work again when the space of deleted objects has been reclaimed.
func TestQuotaReached(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir, "--embedded-etcd-quota", "16MiB")
	ctx := contextFor(t)
	s := newSubscribers("subscriber")
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
	fill := func() {
		for ; ; written++ {
			if _, err := put(fmt.Sprintf("large/%d", written), large); err != nil {
				if status.Code(err) != codes.ResourceExhausted || reasonOf(err) != "STORE_FULL" {
					t.Fatalf("a write to a full disk: got %v", err)
				}
				return
			}
		}
	}
	fill()
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
	newcomer := newSubscribers("newcomer")
	newcomer.subscribe(t, f.reads)
	newcomer.until(t, object.Synced)
	for _, s := range newcomer {
		if n := len(s.state()); n < written-1 {
			t.Errorf("%s: got %d objects, want %d", s.history.Watcher, n, written-1)
		}
	}
	// A restart of fanoutd changes this only if the database has free pages.
	f.end(t, syscall.SIGTERM)
	f.start(t)
	fill()
	if _, err := put("small", "v"); reasonOf(err) != "STORE_FULL" {
		t.Errorf("a write after a restart: %v", err)
	}
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	// Deleted objects leave space that can be reclaimed while the server runs.
	for i := range written {
		if _, err := f.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: fmt.Sprintf("large/%d", i)}}); err != nil {
			t.Fatalf("a deletion: %v", err)
		}
	}
	operator := fanoutv1.NewAdminServiceClient(f.conn)
	kept, err := operator.ReclaimSpace(ctx, &fanoutv1.ReclaimSpaceRequest{KeepHistory: true})
	if err != nil || kept.GetAcceptsWritesAgain() || kept.GetCompactedRevision() != 0 {
		t.Errorf("got %v, %v, want a full database, because the history has the deleted objects", kept, err)
	}
	if _, err := put("small", "v"); reasonOf(err) != "STORE_FULL" {
		t.Errorf("a write while the history fills the database: %v", err)
	}
	reclaimed, err := operator.ReclaimSpace(ctx, &fanoutv1.ReclaimSpaceRequest{})
	if err != nil || !reclaimed.GetAcceptsWritesAgain() || reclaimed.GetBytes() > 1<<20 || reclaimed.GetQuotaBytes() != 16<<20 {
		t.Errorf("got %v, %v, want an empty database that accepts writes", reclaimed, err)
	}
	at, err := put("small", "v")
	if err != nil {
		t.Fatalf("a write when there is space again: %v", err)
	}
	s.reach(t, at)
	s.caughtUp(t, object.Reset, object.Replay)
}
