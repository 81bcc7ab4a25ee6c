package robustness

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/kept"
	"github.com/fanoutd/fanoutd/test/poll"
)

const (
	clients = 8

	// callsPerSecond is the rate of each client, in waves of this many calls. It is low
	// enough for the validator to finish within seconds.
	callsPerSecond = 50
	wave           = 10
)

// options configure a recording.
type options struct {
	seed     uint64
	duration time.Duration
	members  int // of etcd; 0: the servers are its members
	faults   bool
	carrier  carrier // of the watches

	safeChange bool // writes have a history and are checked

	// prepare, if set, runs before the servers start.
	prepare func(context.Context, *clientv3.Client) error
}

// recording is the history of a run: what clients of fanoutd recorded, and etcd's
// write-ahead log.
type recording struct {
	dir       string   // for logs and data
	dataDirs  []string // of etcd
	reports   []report.ClientReport
	states    []state
	persisted []model.EtcdRequest

	answered, unknown int
	faults            map[string]int
	seen              map[string]int
}

// record starts everything, lets it run and stops it.
func record(t *testing.T, opts options) *recording {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), opts.duration+poll.Patience)
	defer cancel()
	dir := kept.Dir(t)
	var cluster *cluster
	if opts.members == 0 {
		cluster = newOwnCluster(t, dir, opts.safeChange)
	} else {
		cluster = startCluster(t, dir, opts.members, opts.safeChange)
	}
	base, ids := time.Now(), identity.NewIDProvider()
	random := func(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(opts.seed, actor)) }
	history := func() *model.AppendableHistory { return model.NewAppendableHistory(ids) }

	other := &otherProgram{base: base, rng: random(1), client: cluster.client, ids: ids, pace: rate.NewLimiter(20, 1), history: history()}
	if opts.members == 0 {
		other.assumeEmpty()
	} else if err := other.readEmpty(ctx); err != nil {
		t.Fatal(err)
	}
	if opts.prepare != nil {
		if err := opts.prepare(ctx, cluster.client); err != nil {
			t.Fatal(err)
		}
	}
	if err := serve(ctx, cluster.replicas...); err != nil {
		t.Fatal(err)
	}

	ledger, goal := newLedger(), newGoal(ctx)
	overWatch, overSubscribe := cluster.clients(t)
	watchers := newWatchers(func(w *watcher, i int) {
		w.base, w.rng, w.clients, w.ledger, w.goal = base, random(1000+uint64(i)), overWatch, ledger, goal
		if opts.carrier.isSubscribe(i) {
			w.clients = overSubscribe
		}
		w.retryPace, w.history = rate.NewLimiter(10, 1), history()
	})
	watching, watchCtx := errgroup.WithContext(ctx)
	for _, w := range watchers {
		watching.Go(func() error { return w.run(watchCtx) })
	}

	// the duration of the recording
	enough, stop := context.WithTimeout(ctx, opts.duration)
	defer stop()
	working, workCtx := errgroup.WithContext(ctx)
	// If one of them fails, the others stop.
	context.AfterFunc(workCtx, stop)
	context.AfterFunc(watchCtx, stop)
	all := make([]*client, clients)
	for i := range all {
		all[i] = &client{
			name: fmt.Sprintf("client %d", i), base: base, rng: random(100 + uint64(i)), replicas: cluster.replicas, ids: ids,
			ledger: ledger, pace: rate.NewLimiter(callsPerSecond, wave), retryPace: rate.NewLimiter(5, 1), history: history(), known: map[string]int64{},
		}
		working.Go(func() error { return all[i].run(workCtx, enough) })
	}
	working.Go(func() error { return other.run(workCtx, enough) })
	injector := &faultInjector{base: base, rng: random(2), cluster: cluster, ledger: ledger, history: history(), made: map[string]int{}}
	if opts.faults {
		working.Go(func() error { return injector.run(workCtx, enough) })
	}
	err := working.Wait()
	ledger.close()
	if err == nil {
		var last int64
		if last, err = all[0].writeAll(ctx); err == nil {
			goal.set(last)
		}
	}
	if err != nil {
		cancel() // the watchers cannot reach the goal
	}
	if watched := watching.Wait(); err == nil {
		err = watched
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.stop(ctx); err != nil {
		t.Fatal(err)
	}

	rec := &recording{dir: dir, faults: injector.made, seen: map[string]int{}}
	rec.answered, rec.unknown = ledger.counts()
	for _, h := range []*model.AppendableHistory{other.history, injector.history} {
		rec.reports = append(rec.reports, report.ClientReport{ClientID: ids.NewClientID(), KeyValue: h.Operations()})
	}
	for _, c := range all {
		rec.reports = append(rec.reports, report.ClientReport{ClientID: ids.NewClientID(), KeyValue: c.history.Operations()})
		rec.states = append(rec.states, c.states...)
	}
	for _, w := range watchers {
		rec.reports = append(rec.reports, report.ClientReport{ClientID: ids.NewClientID(), KeyValue: w.history.Operations(), Watch: w.watches})
		rec.states = append(rec.states, w.states...)
		for what, n := range w.seen {
			rec.seen[what] += n
		}
	}
	rec.dataDirs = cluster.dataDirs()
	rec.persisted, err = persistedRequests(zaptest.NewLogger(t, quiet), rec.dataDirs, dir)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// newWatchers returns watchers of the whole resource, of paths and of keys. Some of them
// never leave on their own.
func newWatchers(complete func(*watcher, int)) []*watcher {
	spans := []span{whole(), whole(), whole(), whole(), selected("a"), selected("b/x/0")}
	for _, path := range paths {
		spans = append(spans, below(path), below(path))
	}
	for _, key := range []string{"a", "a/0", "b/x/1", "c"} {
		spans = append(spans, exactly(key))
	}
	watchers := make([]*watcher, len(spans))
	for i, span := range spans {
		w := &watcher{name: fmt.Sprintf("watcher %d", i), span: span, previous: i%2 == 0}
		if i%3 != 0 {
			w.patience = 10 + 40*(i%2)
		}
		complete(w, i)
		watchers[i] = w
	}
	return watchers
}

// writeAll writes all keys, so that every watcher receives a last event. It returns the
// revision of the write.
func (c *client) writeAll(ctx context.Context) (int64, error) {
	var ops []*fanoutv1.Operation
	for _, key := range keys {
		op := c.put(key)
		op.GetPut().IfModRevision = nil
		ops = append(ops, op)
	}
	for {
		// A call that is given up may still have an effect.
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.write(call, ops...)
		cancel()
		if err == nil {
			return c.newest, nil
		}
		if !unknown(err) || ctx.Err() != nil {
			return 0, fmt.Errorf("last write: %w", err)
		}
		if err := c.retryPace.Wait(ctx); err != nil {
			return 0, err
		}
	}
}

// count returns the number of recorded operations, watches and events.
func (r *recording) count() (operations, watches, events int) {
	for _, report := range r.reports {
		operations += len(report.KeyValue)
		watches += len(report.Watch)
		events += report.WatchEventCount()
	}
	return operations, watches, events
}

// describe formats counts in the order of their names.
func describe(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(all, ", ")
}
