package e2e

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/seed"
)

// TestHoppingBetweenServers checks that two servers over one etcd are interchangeable. A
// subscriber moves between them at random, a thousand times, while writers use both, and
// receives every event once.
func TestHoppingBetweenServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	const hops = 1000
	etcdAddress := startEtcd(t)
	servers := []*server{
		startServer(t, "--etcd-endpoints", "http://"+etcdAddress),
		startServer(t, "--etcd-endpoints", "http://"+etcdAddress),
	}
	random := seed.New(t)
	rng := random.Rand(0)

	written := newLedger()
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var writers errgroup.Group
	pace := newPace(t, 100)
	for i, s := range servers {
		w := &rpcWriter{name: "writer", pace: pace, store: fanoutv1.NewStoreServiceClient(s.conn), rng: random.Rand(uint64(1 + i)), ledger: written}
		writers.Go(func() error { return w.run(t.Context(), writing) })
	}

	hopper := newRecorder(t, servers[0].conn, wholeResource())
	hopper.open(t, check.FromNothing)
	hopper.until(t, object.Synced)
	for range hops {
		hopper.leave()
		hopper.client = fanoutv1.NewFanoutServiceClient(pick(rng, servers).conn)
		hopper.resume(t)
		// Sometimes the subscriber stays for a live event, sometimes it leaves at once.
		switch rng.IntN(4) {
		case 0:
		case 1:
			hopper.until(t, object.Live)
		default:
			hopper.until(t, object.Synced)
		}
	}
	stop()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	hopper.leave()
	hopper.resume(t)
	hopper.reach(t, int64(written.newest()))

	truth := readTruth(t, dialEtcd(t, etcdAddress))
	hopper.validate(t, truth)
	if err := written.survived(truth); err != nil {
		t.Error(err)
	}
	events := map[entry]int{}
	for i := range hopper.history.Streams {
		for _, m := range hopper.history.Streams[i].Messages {
			for _, e := range m.Events {
				events[entry{e.Object.Key, e.Revision}]++
			}
		}
	}
	t.Logf("%d changes, %d events, %d streams", truth.Len(), len(events), len(hopper.history.Streams))
	if truth.Len() < hops {
		t.Errorf("the test is too easy: got only %d changes", truth.Len())
	}
	for c := range truth.Between(object.Scope{}, hopper.history.Streams[0].Messages[0].Position.Revision, truth.Through) {
		if n := events[entry{c.Key, c.Revision}]; n > 1 {
			t.Errorf("got %q at revision %d %d times, want once", c.Key, c.Revision, n)
		}
	}
}

// resume opens the next stream at the last position. It retries while the server
// starts.
func (r *recorder) resume(t *testing.T) {
	t.Helper()
	for {
		err := r.try(t, check.After)
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable || reasonOf(err) != "REVISION_NOT_REACHED" {
			t.Fatal(err)
		}
	}
}
