package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/seed"
	"github.com/fanoutd/fanoutd/test/subscription"
)

// The window and the memory of deletions are so small in the randomized test that
// returning watchers are often too late for them.
const (
	smallWindow     = 300
	smallTombstones = 90

	// The window forgets whole revisions. No revision of the test is larger.
	largestRevision = 40
)

// promised is what a server with these limits promises.
var promised = check.Conditions{
	Window: smallWindow - largestRevision, Tombstones: smallTombstones, MessageBytes: defaultMessageBytes, Backlog: backlog,
}

// defaultMessageBytes is fanoutd's default size limit of a message.
const defaultMessageBytes = 1 << 20

// backlog is the maximum number of writes between a write and its delivery to a watcher
// that always reads. It is generous: some watchers have a batch delay of up to a second,
// and about 60 writes happen in a second.
const backlog = 200

// patience is how much longer than requested a silence may be, because the tests share the machine with
// others.
const patience = 6 * time.Second

// resourceConfig is the resource of the randomized test.
const resourceConfig = `
resources:
  - name: config
    window: {min-events: 300, max-events: 300}
    max-tombstones: 90` + fieldsConfig

// uncachedConfig is the same resource without a cache. Its window is etcd's history.
const uncachedConfig = `
resources:
  - name: config
    cache: off` + fieldsConfig

// promisedUncached is what a server without a cache promises.
var promisedUncached = check.Conditions{Window: math.MaxInt, MessageBytes: defaultMessageBytes, Backlog: backlog}

// scenario is one round of the randomized test: the processes, the actors, and what the
// validation must know about them.
type scenario struct {
	server   *server   // the server that suffers faults
	others   []*server // over the same etcd, without faults
	entrance *link     // from subscribers to the server
	etcd     *clientv3.Client
	history  *etcdHistory
	ledger   *ledger
	goal     *goal
	random   seed.Seed
	promised check.Conditions

	safeChange bool // the servers keep a history, and check writes

	watchers      []*watcher
	readers       []*reader
	subscriptions []*subscription.Client // of the watchers that use Subscribe
	churns        []*subscription.Churn
	latencyProbe  *latencyProbe

	// actors end when they have nothing left to do. ctx ends when one of them fails.
	// While writing lasts, there are writes and reads.
	actors  *errgroup.Group
	ctx     context.Context
	writing context.Context
	written context.CancelFunc
	writers *errgroup.Group

	mu          sync.Mutex
	outages     []check.Span
	longOutages []check.Span
	forgotten   []check.Forgotten
	restarts    []restart
	compacted   object.Revision
}

// newScenario returns a scenario without actors.
func newScenario(t *testing.T, s *server, etcd *clientv3.Client, promised check.Conditions, random seed.Seed) *scenario {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*poll.Patience)
	w := &scenario{server: s, etcd: etcd, latencyProbe: &latencyProbe{server: s, etcd: etcd}, ledger: newLedger(), random: random, promised: promised}
	w.actors, w.ctx = errgroup.WithContext(ctx)
	w.writers, _ = errgroup.WithContext(w.ctx)
	w.writing, w.written = context.WithCancel(w.ctx)
	w.goal = newGoal(w.ctx)
	w.entrance = newLink(t, s.address)
	w.history = newEtcdHistory(t, w.etcd)
	t.Cleanup(func() {
		cancel()
		_ = w.writers.Wait()
		_ = w.actors.Wait() // only waits after a failure; otherwise the actors have ended
	})
	return w
}

// populate starts watchers, readers and writers.
func (w *scenario) populate(t *testing.T, watchers, perSecond int) {
	t.Helper()
	// Some watchers use one server, and some move between servers.
	const connections = 3
	var one, all [][]fanoutv1.FanoutServiceClient
	for range connections {
		client := fanoutv1.NewFanoutServiceClient(dial(t, w.entrance.address))
		one = append(one, []fanoutv1.FanoutServiceClient{client})
		all = append(all, []fanoutv1.FanoutServiceClient{client})
		for _, other := range w.others {
			all[len(all)-1] = append(all[len(all)-1], fanoutv1.NewFanoutServiceClient(dial(t, other.address)))
		}
	}
	clients := func(i int) []fanoutv1.FanoutServiceClient {
		if i%4 == 0 {
			return all[i%connections]
		}
		return one[i%connections]
	}
	// Half of the watchers share a Subscribe stream for each connection, but none with a deadline:
	// the server would not know it, and send no final bookmark.
	carriers := w.random.Rand(1)
	subscribed := map[fanoutv1.FanoutServiceClient]fanoutv1.FanoutServiceClient{}
	for i := range connections {
		for _, client := range all[i] {
			subscribed[client] = w.overSubscribe(t, client)
		}
		subscribed[one[i][0]] = w.overSubscribe(t, one[i][0])
	}
	for i, options := range watchKinds(w.random.Rand(0), watchers) {
		watcher := &watcher{watchOptions: options, name: fmt.Sprintf("watcher %d", i), clients: clients(i), rng: w.random.Rand(uint64(1000 + i))}
		if watcher.subscribes = carriers.IntN(2) == 0 && options.deadline == 0; watcher.subscribes {
			watcher.clients = slices.Clone(watcher.clients)
			for j, client := range watcher.clients {
				watcher.clients[j] = subscribed[client]
			}
		}
		w.watch(watcher, i)
	}
	for i := range 4 {
		reader := &reader{
			name: fmt.Sprintf("reader %d", i), clients: clients(i), ledger: w.ledger, rng: w.random.Rand(uint64(2000 + i)),
			uncounted: w.uncached(), compacted: w.compactedAt,
		}
		w.readers = append(w.readers, reader)
		w.actors.Go(func() error { return reader.run(w.ctx, w.writing) })
	}
	w.actors.Go(func() error { return w.latencyProbe.run(w.ctx, w.writing) })
	pace := newPace(t, perSecond)
	store := fanoutv1.NewStoreServiceClient(w.server.conn)
	for i := range 4 {
		writer := &rpcWriter{name: fmt.Sprintf("writer-%d", i), pace: pace, store: store, rng: w.random.Rand(uint64(3000 + i)), ledger: w.ledger}
		w.write(func() error { return writer.run(w.ctx, w.writing) })
	}
	for i := range 2 {
		writer := &etcdWriter{name: fmt.Sprintf("etcd-writer-%d", i), pace: pace, client: w.etcd, rng: w.random.Rand(uint64(4000 + i)), ledger: w.ledger}
		w.write(func() error { return writer.run(w.ctx, w.writing) })
	}
	w.actors.Go(func() error {
		defer w.ledger.close()
		return w.writers.Wait()
	})
}

// watch starts the watcher with the number i.
func (w *scenario) watch(watcher *watcher, i int) {
	watcher.goal, watcher.ledger, watcher.restChanges = w.goal, w.ledger, 2*smallWindow
	if i%5 > 1 {
		// Single keys change seldom, so their watchers leave sooner.
		watcher.patience = 40
		if watcher.scope.GetKey() != "" {
			watcher.patience = 4
		}
	}
	w.watchers = append(w.watchers, watcher)
	w.actors.Go(func() error { return watcher.run(w.ctx) })
}

// crowd starts watchers that share one Subscribe stream, which they pause at random. The stream also has
// watches that do not come back, which are started and stopped all the time.
func (w *scenario) crowd(t *testing.T, watchers, others int) {
	t.Helper()
	client := w.overSubscribe(t, fanoutv1.NewFanoutServiceClient(dial(t, w.entrance.address)))
	for i, options := range watchKinds(w.random.Rand(2), watchers) {
		w.watch(&watcher{
			watchOptions: options, name: fmt.Sprintf("watcher %d of the crowd", i), clients: []fanoutv1.FanoutServiceClient{client},
			rng: w.random.Rand(uint64(10_000 + i)), subscribes: true, crowded: true,
		}, i)
	}
	p := &pauser{client: client, ledger: w.ledger, goal: w.goal, rng: w.random.Rand(3)}
	w.actors.Go(func() error { return p.run(w.ctx, w.writing) })
	if others > 0 {
		w.churns = append(w.churns, client.Churn(others, w.random.Rand(4), randomRequest))
	}
}

// write starts a writer. If it fails, all actors stop, although the other writers could
// continue.
func (w *scenario) write(run func() error) {
	w.writers.Go(func() error {
		err := run()
		if err != nil {
			w.actors.Go(func() error { return err })
		}
		return err
	})
}

// changes waits for n more changes.
func (w *scenario) changes(t *testing.T, n int) {
	t.Helper()
	if err := w.ledger.wait(w.ctx, w.ledger.len()+n); err != nil {
		t.Fatal(w.actors.Wait())
	}
}

// disturb causes an outage, and returns when it is over: the server answers from the
// present again.
func (w *scenario) disturb(t *testing.T, do func()) {
	t.Helper()
	from := time.Now()
	do()
	if err := w.recovered(); err != nil {
		t.Fatalf("%v\n%v", err, w.actors.Wait())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages = append(w.outages, check.Span{From: from, To: time.Now()})
}

// recovered waits until the server answers from the present.
func (w *scenario) recovered() error {
	ctx, cancel := context.WithTimeout(w.ctx, poll.Patience)
	defer cancel()
	for {
		_, err := fanoutv1.NewFanoutServiceClient(w.server.conn).List(ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server does not recover: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// revision returns the revision of etcd.
func (w *scenario) revision(t *testing.T) object.Revision {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, poll.Patience)
	defer cancel()
	revision, err := w.lastRevision(ctx)
	if err != nil {
		t.Fatal(errors.Join(err, context.Cause(w.ctx))) // an actor may have failed
	}
	return revision
}

func (w *scenario) lastRevision(ctx context.Context) (object.Revision, error) {
	answer, err := w.etcd.Get(ctx, "x", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return object.Revision(answer.Header.GetRevision()), nil
}

// compact compacts etcd at its present revision.
func (w *scenario) compact(t *testing.T) {
	t.Helper()
	at := w.revision(t)
	ctx, cancel := context.WithTimeout(w.ctx, poll.Patience)
	defer cancel()
	if err := w.history.wait(ctx, at); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.compacted = at // before compacting, because readers check it
	w.mu.Unlock()
	if w.uncached() {
		w.forget(check.Forgotten{Since: at, Below: at}) // no cache has the history
	}
	if _, err := w.etcd.Compact(ctx, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// uncached reports whether the server has no cache.
func (w *scenario) uncached() bool { return w.promised.Tombstones == 0 }

func (w *scenario) compactedAt() object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.compacted
}

// restart is a restart of the server. Then the server may not have what etcd had compacted, and what is
// older than the window.
type restart struct {
	since, until object.Revision // of the store, before the end and after the start
	compacted    object.Revision
}

// restart ends the server with the signal and starts it again.
func (w *scenario) restart(t *testing.T, signal os.Signal) {
	t.Helper()
	since := w.revision(t)
	w.server.end(t, signal)
	w.server.start(t)
	w.restarts = append(w.restarts, restart{since: since, until: w.revision(t), compacted: w.compactedAt()})
}

func (w *scenario) forget(f check.Forgotten) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = append(w.forgotten, f)
}

// finish ends the writing, waits until every watcher has received everything, and returns
// the truth.
func (w *scenario) finish(t *testing.T) *check.Truth {
	t.Helper()
	w.written()
	_ = w.writers.Wait() // actors.Wait returns the same error
	if w.ctx.Err() == nil {
		// Do not compare during an outage.
		if err := w.recovered(); err != nil {
			t.Error(err)
		}
	}
	ctx := poll.Context(t)
	last, err := w.lastRevision(ctx)
	if err != nil {
		t.Error(err)
	}
	w.goal.set(last)
	from := time.Now()
	failed := w.actors.Wait()
	t.Logf("all watchers finished after %v", time.Since(from).Round(time.Millisecond))
	truth, err := w.history.truth(ctx, last)
	if err != nil {
		t.Fatal(errors.Join(err, failed))
	}
	truth.Conditions = w.promised
	truth.Forgotten = w.forgotten
	for _, r := range w.restarts {
		window := truth.Before(r.until, truth.Window)
		truth.Forgotten = append(truth.Forgotten, check.Forgotten{Since: r.since, Below: max(r.compacted, window)})
	}
	truth.Gaps = w.gaps(t)
	slowest := w.latencyProbe.slowest(w.outages)
	t.Logf("the latency probe took up to %v", slowest.Round(time.Millisecond))
	truth.Patience = patience + 2*slowest
	truth.Outages = w.outages
	truth.Severed = w.longOutages
	truth.Acknowledged = w.ledger.acknowledgements()
	if failed != nil {
		t.Error(failed)
	}
	return truth
}

// gaps returns the parts of the history that the server's log reports as missed. Each must
// have a known reason: etcd was compacted past the server's revision.
func (w *scenario) gaps(t *testing.T) []check.Gap {
	t.Helper()
	var gaps []check.Gap
	for _, s := range append(w.others, w.server) {
		crossed, err := loggedGaps(s.output(t))
		if err != nil {
			t.Fatal(err)
		}
		gaps = append(gaps, crossed...)
	}
	for _, g := range gaps {
		if g.After >= w.compacted {
			t.Errorf("got a gap from revision %d to %d, but etcd was compacted at %d at most", g.After, g.Until, w.compacted)
		}
	}
	return gaps
}

// configured returns the arguments for a server with this configuration file.
func configured(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	writeFile(t, path, strings.TrimSpace(text)+"\n")
	return []string{"--config", path}
}
