package e2e

import (
	"context"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/seed"
	"github.com/fanoutd/fanoutd/test/subscription"
)

// TestHoppingBetweenServers checks that two servers over one etcd are interchangeable. Two
// subscribers move between them at random, a thousand times each, while writers use both, and
// receive every event once. One uses Watch. The other has a Subscribe stream to each server: it
// starts a watch on one of them, and stops the last one. Without the race detector, each stream has
// hundreds of other watches, which are started and stopped all the time.
func TestHoppingBetweenServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	hops, others := 1000, churned
	if race.Enabled {
		hops, others = 400, 0
	}
	etcdAddress := startEtcd(t)
	random := seed.New(t)
	safeChange := random%2 == 0
	config := configured(t, safeChangeIf(t, safeChange, "resources:\n  - name: config"))
	var servers []*server
	for range 2 {
		servers = append(servers, startServer(t, append(config, "--etcd-endpoints", "http://"+etcdAddress)...))
	}

	written := newLedger()
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var writers errgroup.Group
	pace := newPace(t, 100)
	for i, s := range servers {
		w := &rpcWriter{name: "writer", pace: pace, store: fanoutv1.NewStoreServiceClient(s.conn), rng: random.Rand(uint64(1 + i)), ledger: written}
		writers.Go(func() error { return w.run(t.Context(), writing) })
	}

	var overWatch, overSubscribe []fanoutv1.FanoutServiceClient
	var carried []*subscription.Client
	var churns []*subscription.Churn
	for i, s := range servers {
		client := fanoutv1.NewFanoutServiceClient(s.conn)
		subscribed := subscription.NewClient(client)
		t.Cleanup(subscribed.Close)
		carried = append(carried, subscribed)
		if others > 0 {
			churn := subscribed.Churn(others, random.Rand(uint64(20+i)), randomRequest)
			churns = append(churns, churn)
			startChurn(t, subscribed, churn)
		}
		overWatch, overSubscribe = append(overWatch, client), append(overSubscribe, subscribed)
	}
	hoppers := []*hopper{
		{newRecorder(t, servers[0].conn, wholeResource()), overWatch},
		{newRecorder(t, servers[0].conn, wholeResource()), overSubscribe},
	}
	t.Run("hops", func(t *testing.T) {
		for i, h := range hoppers {
			t.Run([]string{"watch", "subscribe"}[i], func(t *testing.T) {
				t.Parallel()
				h.client = h.servers[0]
				h.open(t, check.FromNothing)
				h.until(t, object.Synced)
				rng := random.Rand(uint64(10 + i))
				for range hops {
					h.hop(t, rng)
				}
				h.leave()
			})
		}
	})
	stop()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, h := range hoppers {
		h.resume(t)
		h.reach(t, int64(written.newest()))
		h.leave()
	}

	etcd := dialEtcd(t, etcdAddress)
	truth := readTruth(t, etcd)
	if safeChange {
		validateRecords(t, etcd, truth)
	}
	if err := written.survived(truth); err != nil {
		t.Error(err)
	}
	if truth.Len() < hops {
		t.Errorf("the test is too easy: got only %d changes", truth.Len())
	}
	for _, h := range hoppers {
		h.validate(t, truth)
		h.receivedOnce(t, truth)
	}
	for i, churn := range churns {
		churn.Stop()
		t.Logf("the stream to server %d had %d watches at once, %d in all", i, others, churn.Started())
		if least := others + hops/10; churn.Started() < least {
			t.Errorf("the test is too easy: the stream to server %d had %d watches, want at least %d", i, churn.Started(), least)
		}
	}
	validateStreams(t, truth, carried)
}

// hopper is a recorder that moves between servers.
type hopper struct {
	*recorder
	servers []fanoutv1.FanoutServiceClient
}

// hop moves to a random server. Sometimes the hopper stays for a live event, sometimes it leaves at
// once.
func (h *hopper) hop(t *testing.T, rng *rand.Rand) {
	t.Helper()
	h.leave()
	h.client = pick(rng, h.servers)
	h.resume(t)
	switch rng.IntN(4) {
	case 0:
	case 1:
		h.until(t, object.Live)
	default:
		h.until(t, object.Synced)
	}
}

// receivedOnce checks that no event came twice.
func (h *hopper) receivedOnce(t *testing.T, truth *check.Truth) {
	t.Helper()
	events := map[entry]int{}
	for i := range h.history.Streams {
		for _, m := range h.history.Streams[i].Messages {
			for _, e := range m.Events {
				events[entry{e.Object.Key, e.Revision}]++
			}
		}
	}
	t.Logf("%d changes, %d events, %d streams", truth.Len(), len(events), len(h.history.Streams))
	for c := range truth.Between(object.Scope{}, h.history.Streams[0].Messages[0].Position.Revision, truth.Through) {
		if n := events[entry{c.Key, c.Revision}]; n > 1 {
			t.Errorf("got %q at revision %d %d times, want once", c.Key, c.Revision, n)
		}
	}
}

// startChurn opens the stream of a churn, and waits until all its watches have begun.
func startChurn(t *testing.T, c *subscription.Client, churn *subscription.Churn) {
	t.Helper()
	ctx := poll.Context(t)
	if _, err := c.Stream(ctx); err != nil {
		t.Fatal(err)
	}
	if err := churn.Begun(ctx); err != nil {
		t.Fatal(err)
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
