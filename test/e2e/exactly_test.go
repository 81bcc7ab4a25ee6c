package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/object"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Fifty watchers, some of which come and go and some of which read slowly, see
// exactly what etcd says has happened, while eight writers make 10,000 changes
// and the server is stopped and started, and killed and started.
func TestWatchersSeeExactlyWhatHappened(t *testing.T) {
	t.Run("embedded etcd", func(t *testing.T) {
		etcd := loopback.FreeAddress(t)
		watchersSeeExactlyWhatHappened(t, startServer(t, embedded(t, etcd)...), etcd)
	})
	t.Run("external etcd", func(t *testing.T) {
		etcd := startEtcd(t)
		watchersSeeExactlyWhatHappened(t, startServer(t, "--etcd-endpoints", "http://"+etcd), etcd)
	})
}

const changes = 10_000

func watchersSeeExactlyWhatHappened(t *testing.T, s *server, etcdAddress string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	actors, ctx := errgroup.WithContext(ctx)
	t.Cleanup(func() {
		cancel()
		_ = actors.Wait() // after a failure; otherwise they are at their end
	})
	random := seed.New(t)
	written := newLedger()
	goal := newGoal(ctx)
	etcd := dialEtcd(t, etcdAddress)

	watchers := newWatchers(t, s, func(w *watcher, i int) {
		w.goal, w.ledger, w.rng = goal, written, random.Rand(uint64(i))
	})
	for _, w := range watchers {
		actors.Go(func() error { return w.run(ctx) })
	}
	writers, writing := errgroup.WithContext(ctx)
	startWriters(writing, writers, s, etcd, written, random)
	actors.Go(func() error {
		defer written.close()
		return writers.Wait()
	})

	// wait returns when n changes have been written, or all.
	wait := func(n int) {
		t.Helper()
		if err := written.wait(ctx, n); err != nil {
			t.Fatal(actors.Wait())
		}
	}
	for i, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		wait((i + 1) * changes / 3)
		s.end(t, signal)
		s.start(t)
	}
	wait(math.MaxInt)
	last, err := closeScopes(ctx, s.conn, watchers)
	if err != nil {
		t.Fatalf("last write: %v\n%v", err, actors.Wait())
	}
	goal.set(last)
	err = actors.Wait()

	truth := readTruth(t, etcd)
	judge(t, truth, watchers)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.survived(truth); err != nil {
		t.Error(err)
	}
	if truth.Len() < changes {
		t.Errorf("only %d changes were made", truth.Len())
	}
	variety(t, truth, watchers)
}

// newWatchers returns watchers of the whole resource, of prefixes and of single
// keys, on a few connections.
func newWatchers(t *testing.T, s *server, complete func(*watcher, int)) []*watcher {
	scopes := make([]*fanoutv1.Scope, 0, 50)
	for range 10 {
		scopes = append(scopes, wholeResource())
	}
	for team := range teams {
		scopes = append(scopes, prefixScope(fmt.Sprintf("team-%d", team)))
		scopes = append(scopes, prefixScope(fmt.Sprintf("team-%d/svc-%d/", team%3, team%services)))
	}
	for i := len(scopes); i < cap(scopes); i++ {
		switch i % 3 {
		case 0:
			scopes = append(scopes, keyScope(fmt.Sprintf("team-%d", i%teams)))
		default:
			scopes = append(scopes, keyScope(fmt.Sprintf("team-%d/svc-%d/key-%d", i%teams, i%services, i%keys)))
		}
	}
	conns := make([]*grpc.ClientConn, 5)
	for i := range conns {
		conns[i] = dial(t, s.address)
	}
	watchers := make([]*watcher, len(scopes))
	for i, scope := range scopes {
		w := &watcher{
			name:   fmt.Sprintf("watcher %d", i),
			client: fanoutv1.NewFanoutServiceClient(conns[i%len(conns)]),
			scope:  scope,
		}
		if i%5 > 1 {
			// Single keys change seldom, so their watchers leave sooner.
			w.patience = 40
			if scope.GetKey() != "" {
				w.patience = 4
			}
		}
		complete(w, i)
		watchers[i] = w
	}
	return watchers
}

func startWriters(ctx context.Context, group *errgroup.Group, s *server, etcd *clientv3.Client, written *ledger, random seed.Seed) {
	store := fanoutv1.NewStoreServiceClient(s.conn)
	for i := range 6 {
		w := &rpcWriter{name: fmt.Sprintf("writer %d", i), store: store, rng: random.Rand(uint64(100 + i)), ledger: written}
		group.Go(func() error { return w.run(ctx, changes) })
	}
	for i := range 2 {
		w := &etcdWriter{name: fmt.Sprintf("etcd writer %d", i), client: etcd, rng: random.Rand(uint64(200 + i)), ledger: written}
		group.Go(func() error { return w.run(ctx, changes) })
	}
}

// closeScopes makes a last change in the scope of every watcher, all of them at
// the revision that it returns.
func closeScopes(ctx context.Context, conn *grpc.ClientConn, watchers []*watcher) (int64, error) {
	request := &fanoutv1.TransactRequest{Resource: resource}
	seen := map[string]bool{}
	for _, w := range watchers {
		key := w.scope.GetKey()
		if prefix, err := scopeOf(w.scope); err == nil && w.scope.GetPrefix() != "" {
			key = string(prefix.First()) + "closing"
		}
		if key == "" || seen[key] {
			continue
		}
		seen[key] = true
		request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
			Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: "closing"}},
		}})
	}
	answer, err := fanoutv1.NewStoreServiceClient(conn).Transact(ctx, request)
	return answer.GetRevision(), err
}

// variety makes sure that what was meant to be tested has happened.
func variety(t *testing.T, truth *check.Truth, watchers []*watcher) {
	t.Helper()
	seen := map[string]int{}
	for _, w := range watchers {
		for i := range w.history.Streams {
			s := &w.history.Streams[i]
			seen["streams"]++
			if s.Begin == check.FromNow && len(s.Messages) > 0 {
				seen["from now"]++
			}
			for j := range s.Messages {
				m := &s.Messages[j]
				seen["messages"]++
				seen["events"] += len(m.Events)
				switch {
				case m.CatchUp == object.Replay:
					seen["replays"]++
				case m.CatchUp == object.Reset:
					seen["resets"]++
				case m.Kind == object.Draining:
					seen["drainings"]++
				}
				if m.Kind == object.Live {
					seen["live"]++
				}
			}
		}
	}
	t.Logf("%d changes, %d watchers: %v", truth.Len(), len(watchers), seen)
	for _, what := range []string{"replays", "resets", "from now", "drainings", "live"} {
		if seen[what] == 0 {
			t.Errorf("the test is too easy: there were no %s", what)
		}
	}
}
