package failures

import (
	"context"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// TestEtcdAway kills or freezes all of etcd: bookmarks stop, the health of the resource
// turns NOT_SERVING after a grace time, "any" reads continue, and no stream ends.
func TestEtcdAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		away, back func(*testing.T, *etcdproc.Member)
	}{
		"killed": {
			func(t *testing.T, m *etcdproc.Member) { m.Kill(t) },
			func(t *testing.T, m *etcdproc.Member) { m.Start(t) },
		},
		"frozen": {
			func(t *testing.T, m *etcdproc.Member) { m.Signal(t, syscall.SIGSTOP) },
			func(t *testing.T, m *etcdproc.Member) { m.Signal(t, syscall.SIGCONT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			client := dialEtcd(t, m.Address)
			f := startFanoutd(t, over(m.Address)...)
			client.put(t, "k", "before")
			s := newSubscribers("subscriber")
			s.subscribe(t, f.reads)
			s.until(t, object.Synced)

			test.away(t, m)
			f.await(t, "resource/"+resource, healthv1.HealthCheckResponse_NOT_SERVING)
			got, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{
				Resource: resource, Key: "k",
				Consistency: &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}},
			})
			if err != nil || string(got.GetObject().GetData()) != "before" {
				t.Errorf("any read: got %v, %v", got, err)
			}
			staysSilent(t, f, got.GetPosition())

			test.back(t, m)
			f.await(t, "resource/"+resource, healthv1.HealthCheckResponse_SERVING)
			s.reach(t, client.put(t, "k", "after"))
			s.caughtUp(t, object.Reset)
			s.validate(t, client.truth(t))
		})
	}
}

// staysSilent checks that a watcher receives no bookmark beyond the present.
func staysSilent(t *testing.T, f *instance, at *fanoutv1.Position) {
	t.Helper()
	const intervals = 20
	interval := 100 * time.Millisecond
	// No bookmark comes, however long this waits.
	ctx, cancel := context.WithTimeout(t.Context(), intervals*interval)
	defer cancel()
	stream, err := f.reads.Watch(ctx, &fanoutv1.WatchRequest{
		Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: "k"}},
		Consistency:      &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}},
		BookmarkInterval: durationpb.New(interval),
	})
	if err != nil {
		t.Fatal(err)
	}
	bookmarks := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("the watch ended: %v", err)
			}
			break
		}
		if m.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK {
			bookmarks++
		}
	}
	if bookmarks > 1 { // one shortly before the deadline only confirms the position
		t.Errorf("got %d bookmarks in %d intervals from a server that has lost etcd at %v", bookmarks, intervals, at)
	}
}
