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
)

const (
	clients = 8

	// callsPerSecond of each client, in waves of so many: few enough that the
	// validator is done within seconds.
	callsPerSecond = 50
	wave           = 10
)

// options say what is recorded.
type options struct {
	seed     uint64
	duration time.Duration
	members  int // of etcd
	trouble  bool

	// prepare, if set, is done before the servers start.
	prepare func(context.Context, *clientv3.Client) error
}

// recording is what happened: what was recorded of it through fanoutd, and what
// etcd's write-ahead log says.
type recording struct {
	dir       string   // of logs and data
	dataDirs  []string // of etcd
	reports   []report.ClientReport
	states    []state
	persisted []model.EtcdRequest

	answered, unknown int
	troubles          map[string]int
	seen              map[string]int
}

// record starts everything, lets it work and stops it.
func record(t *testing.T, opts options) *recording {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), opts.duration+5*time.Minute)
	defer cancel()
	dir := kept.Dir(t)
	cluster := startCluster(t, dir, opts.members)
	base, ids := time.Now(), identity.NewIDProvider()
	random := func(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(opts.seed, actor)) }
	history := func() *model.AppendableHistory { return model.NewAppendableHistory(ids) }

	stranger := &stranger{base: base, rng: random(1), client: cluster.client, ids: ids, pace: rate.NewLimiter(20, 1), history: history()}
	if err := stranger.arrive(ctx); err != nil {
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
	watchers := newWatchers(func(w *watcher, i int) {
		w.base, w.rng, w.replicas, w.ledger, w.goal = base, random(1000+uint64(i)), cluster.replicas, ledger, goal
		w.setback, w.history = rate.NewLimiter(10, 1), history()
	})
	watching, watchCtx := errgroup.WithContext(ctx)
	for _, w := range watchers {
		watching.Go(func() error { return w.run(watchCtx) })
	}

	enough, stop := context.WithTimeout(ctx, opts.duration)
	defer stop()
	working, workCtx := errgroup.WithContext(ctx)
	// Where one of them fails the others need not go on.
	context.AfterFunc(workCtx, stop)
	context.AfterFunc(watchCtx, stop)
	all := make([]*client, clients)
	for i := range all {
		all[i] = &client{
			name: fmt.Sprintf("client %d", i), base: base, rng: random(100 + uint64(i)), replicas: cluster.replicas, ids: ids,
			ledger: ledger, pace: rate.NewLimiter(callsPerSecond, wave), setback: rate.NewLimiter(5, 1), history: history(), known: map[string]int64{},
		}
		working.Go(func() error { return all[i].run(workCtx, enough) })
	}
	working.Go(func() error { return stranger.run(workCtx, enough) })
	trouble := &trouble{base: base, rng: random(2), cluster: cluster, ledger: ledger, history: history(), made: map[string]int{}}
	if opts.trouble {
		working.Go(func() error { return trouble.run(workCtx, enough) })
	}
	err := working.Wait()
	ledger.close()
	if err == nil {
		var last int64
		if last, err = all[0].closing(ctx); err == nil {
			goal.set(last)
		}
	}
	if err != nil {
		cancel() // nobody will reach the goal
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

	rec := &recording{dir: dir, troubles: trouble.made, seen: map[string]int{}}
	rec.answered, rec.unknown = ledger.counts()
	for _, h := range []*model.AppendableHistory{stranger.history, trouble.history} {
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
	for _, m := range cluster.members {
		rec.dataDirs = append(rec.dataDirs, m.dataDir)
	}
	rec.persisted, err = persistedRequests(zaptest.NewLogger(t, quiet), rec.dataDirs, dir)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// newWatchers returns watchers of the whole resource, of paths and of keys. Some
// never leave of their own accord.
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

// closing writes all keys, so that every watcher has something to wait for, and
// returns the revision.
func (c *client) closing(ctx context.Context) (int64, error) {
	var ops []*fanoutv1.Operation
	for _, key := range keys {
		op := c.put(key)
		op.GetPut().IfModRevision = nil
		ops = append(ops, op)
	}
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.write(call, ops...)
		cancel()
		if err == nil {
			return c.newest, nil
		}
		if !unknown(err) || ctx.Err() != nil {
			return 0, fmt.Errorf("last write: %w", err)
		}
		if err := c.setback.Wait(ctx); err != nil {
			return 0, err
		}
	}
}

// count returns the number of recorded operations, of watches and of their events.
func (r *recording) count() (operations, watches, events int) {
	for _, report := range r.reports {
		operations += len(report.KeyValue)
		watches += len(report.Watch)
		events += report.WatchEventCount()
	}
	return operations, watches, events
}

// describe returns how often each of several things happened, in order of names.
func describe(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(all, ", ")
}
