package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestResumeAfterRestartNeedsNoSnapshot checks that a watcher that is 1,000 changes
// behind when the server restarts receives exactly these changes, and no snapshot.
func TestResumeAfterRestartNeedsNoSnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			const behind, batch = 1000, 50
			etcd := loopback.FreeAddress(t)
			s := startServer(t, embedded(t, etcd)...)
			putMany(t, s, "before", 500, batch)
			r := newRecorder(t, s.conn, wholeResource())
			r.open(t, check.FromNothing)
			r.until(t, object.Synced)
			r.leave()
			position, _ := r.history.Position()

			putMany(t, s, "missed", behind, batch)
			s.end(t, signal)
			s.start(t)
			r.open(t, check.After)
			r.until(t, object.Synced)

			r.validate(t, readTruth(t, dialEtcd(t, etcd)))
			resumed := r.history.Streams[1].Messages
			if first := resumed[0]; first.CatchUp != object.Replay || first.Position != position {
				t.Errorf("got %+v at the start of the stream after %v", first.Header, position)
			}
			events := 0
			for _, m := range resumed {
				events += len(m.Events)
			}
			if events != behind {
				t.Errorf("got %d events, want %d", events, behind)
			}
		})
	}
}

// putMany writes n objects below a path, in batches.
func putMany(t *testing.T, s *server, path string, n, batch int) {
	t.Helper()
	store := fanoutv1.NewStoreServiceClient(s.conn)
	for i := 0; i < n; i += batch {
		request := &fanoutv1.TransactRequest{Resource: resource}
		for j := i; j < i+batch; j++ {
			request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
				Put: &fanoutv1.PutOperation{
					Key:   fmt.Sprintf("%s/%04d", path, j),
					Value: &fanoutv1.PutOperation_Text{Text: fmt.Sprintf("value %d", j)},
				},
			}})
		}
		if _, err := store.Transact(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
}
