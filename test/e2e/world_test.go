package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/seed"
)

// What the server remembers in the randomized test is so little that those who come
// back are often too late for it.
const (
	smallWindow     = 300
	smallTombstones = 90

	// The window forgets whole revisions. None of the test's is larger.
	largestRevision = 40
)

// promised is what a server with that memory promises.
var promised = check.Conditions{
	Window: smallWindow - largestRevision, Tombstones: smallTombstones, MessageBytes: defaultMessageBytes, Backlog: backlog,
}

// defaultMessageBytes is how much fanoutd puts into one message.
const defaultMessageBytes = 1 << 20

// backlog is how many writes there may be between one and the moment at which those
// who read at once are told of it. It is generous: some of them ask for their messages
// in bundles of up to a second, in which there are about 60 writes.
const backlog = 200

// patience is how much longer than asked for a silence may be where the machine does
// not make everything take longer.
const patience = 3 * time.Second

// resourceConfig is the resource of the randomized test.
const resourceConfig = `
resources:
  - name: config
    window: {min-events: 300, max-events: 300}
    max-tombstones: 90` + fieldsConfig

// uncachedConfig is the resource as one that is served straight from etcd. What is
// remembered then is etcd's history.
const uncachedConfig = `
resources:
  - name: config
    cache: off` + fieldsConfig

// promisedUncached is what a server promises that remembers nothing itself.
var promisedUncached = check.Conditions{Window: math.MaxInt, MessageBytes: defaultMessageBytes, Backlog: backlog}

// world is everything that takes part in the randomized test, and what is known of
// it for the judgement.
type world struct {
	server    *server   // the one to which things happen
	others    []*server // over the same etcd, in peace
	entrance  *link     // of subscribers to the server
	etcd      *clientv3.Client
	chronicle *chronicle
	ledger    *ledger
	goal      *goal
	random    seed.Seed
	promised  check.Conditions

	watchers  []*watcher
	readers   []*reader
	stopwatch *stopwatch

	// actors end when there is nothing left to do; ctx ends when one of them
	// fails. While writing lasts there are writes and reads.
	actors  *errgroup.Group
	ctx     context.Context
	writing context.Context
	written context.CancelFunc
	writers *errgroup.Group

	mu        sync.Mutex
	outages   []check.Span
	severed   []check.Span
	forgotten []check.Forgotten
	compacted object.Revision
}

// newWorld returns a world in which nothing happens yet.
func newWorld(t *testing.T, s *server, etcd *clientv3.Client, promised check.Conditions, random seed.Seed) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	w := &world{server: s, etcd: etcd, stopwatch: &stopwatch{server: s, etcd: etcd}, ledger: newLedger(), random: random, promised: promised}
	w.actors, w.ctx = errgroup.WithContext(ctx)
	w.writers, _ = errgroup.WithContext(w.ctx)
	w.writing, w.written = context.WithCancel(w.ctx)
	w.goal = newGoal(w.ctx)
	w.entrance = newLink(t, s.address)
	w.chronicle = newChronicle(t, w.etcd)
	t.Cleanup(func() {
		cancel()
		_ = w.writers.Wait()
		_ = w.actors.Wait() // after a failure; otherwise they are at their end
	})
	return w
}

// populate starts watchers, readers and writers.
func (w *world) populate(t *testing.T, watchers, perSecond int) {
	t.Helper()
	// Some know one server, and some hop.
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
	for i, wish := range kinds(w.random.Rand(0), watchers) {
		watcher := &watcher{
			wish: wish, name: fmt.Sprintf("watcher %d", i), clients: clients(i),
			goal: w.goal, ledger: w.ledger, rng: w.random.Rand(uint64(1000 + i)), calm: 2 * smallWindow,
		}
		if i%5 > 1 {
			// Single keys change seldom, so their watchers leave sooner.
			watcher.patience = 40
			if wish.scope.GetKey() != "" {
				watcher.patience = 4
			}
		}
		w.watchers = append(w.watchers, watcher)
		w.actors.Go(func() error { return watcher.run(w.ctx) })
	}
	for i := range 4 {
		reader := &reader{
			name: fmt.Sprintf("reader %d", i), clients: clients(i), ledger: w.ledger, rng: w.random.Rand(uint64(2000 + i)),
			uncounted: w.uncached(), compacted: w.compactedAt,
		}
		w.readers = append(w.readers, reader)
		w.actors.Go(func() error { return reader.run(w.ctx, w.writing) })
	}
	w.actors.Go(func() error { return w.stopwatch.run(w.ctx, w.writing) })
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

// write starts a writer. If it fails, so does everything at once, though the other
// writers could go on.
func (w *world) write(run func() error) {
	w.writers.Go(func() error {
		err := run()
		if err != nil {
			w.actors.Go(func() error { return err })
		}
		return err
	})
}

// changes waits until n more changes have been made.
func (w *world) changes(t *testing.T, n int) {
	t.Helper()
	if err := w.ledger.wait(w.ctx, w.ledger.len()+n); err != nil {
		t.Fatal(w.actors.Wait())
	}
}

// disturb does something after which it may be quiet for a while, and returns when
// that is over: the server answers from the present again.
func (w *world) disturb(t *testing.T, do func()) {
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
func (w *world) recovered() error {
	ctx, cancel := context.WithTimeout(w.ctx, startTimeout)
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
func (w *world) revision(t *testing.T) object.Revision {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, startTimeout)
	defer cancel()
	revision, err := w.lastRevision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func (w *world) lastRevision(ctx context.Context) (object.Revision, error) {
	answer, err := w.etcd.Get(ctx, "x", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return object.Revision(answer.Header.GetRevision()), nil
}

// compact makes etcd forget what was before its present revision.
func (w *world) compact(t *testing.T) {
	t.Helper()
	at := w.revision(t)
	ctx, cancel := context.WithTimeout(w.ctx, startTimeout)
	defer cancel()
	if err := w.chronicle.wait(ctx, at); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.compacted = at // before it is, because readers look at it
	w.mu.Unlock()
	if w.uncached() {
		w.forget(check.Forgotten{Since: at, Below: at}) // nobody else knows
	}
	if _, err := w.etcd.Compact(ctx, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// uncached reports whether the server remembers nothing itself.
func (w *world) uncached() bool { return w.promised.Tombstones == 0 }

func (w *world) compactedAt() object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.compacted
}

// restarting notes that a server which is started now may not know what etcd does
// not know, nor what is so long ago that it does not look for it.
func (w *world) restarting(t *testing.T) {
	t.Helper()
	const looksBack = 5 * smallWindow // it is twice as far, but the present moves on
	since := w.revision(t)
	w.forget(check.Forgotten{Since: since, Below: max(w.compactedAt(), since-looksBack)})
}

func (w *world) forget(f check.Forgotten) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = append(w.forgotten, f)
}

// finish ends the writing, waits until everybody has seen everything, and returns
// the truth.
func (w *world) finish(t *testing.T) *check.Truth {
	t.Helper()
	w.written()
	_ = w.writers.Wait() // its error is that of the actors
	if w.ctx.Err() == nil {
		// Not in the middle of an outage.
		if err := w.recovered(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	last, err := w.lastRevision(ctx)
	if err != nil {
		t.Error(err)
	}
	w.goal.set(last)
	from := time.Now()
	failed := w.actors.Wait()
	t.Logf("everybody had seen everything after %v", time.Since(from).Round(time.Millisecond))
	truth, err := w.chronicle.truth(ctx, last)
	if err != nil {
		t.Fatal(errors.Join(err, failed))
	}
	truth.Conditions = w.promised
	truth.Forgotten = w.forgotten
	truth.Gaps = w.gaps(t)
	slowest := w.stopwatch.slowest(w.outages)
	t.Logf("what needs nothing took up to %v", slowest.Round(time.Millisecond))
	truth.Patience = patience + 2*slowest
	truth.Outages = w.outages
	truth.Severed = w.severed
	truth.Acknowledged = w.ledger.acknowledgements()
	if failed != nil {
		t.Error(failed)
	}
	return truth
}

// gaps returns the pieces of history that a server says it could not see. Each
// must have a reason that the test knows of: etcd was compacted behind the place
// where the server was.
func (w *world) gaps(t *testing.T) []check.Gap {
	t.Helper()
	var gaps []check.Gap
	for _, s := range append(w.others, w.server) {
		crossed, err := jumps(s.output(t))
		if err != nil {
			t.Fatal(err)
		}
		gaps = append(gaps, crossed...)
	}
	for _, g := range gaps {
		if g.After >= w.compacted {
			t.Errorf("the server jumped from revision %d to %d, but etcd was compacted at %d at most", g.After, g.Until, w.compacted)
		}
	}
	return gaps
}

// configured returns the arguments for a server with a configuration file.
func configured(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	writeFile(t, path, strings.TrimSpace(text)+"\n")
	return []string{"--config", path}
}
