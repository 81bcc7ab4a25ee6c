package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/seed"
)

// duration returns how long a test runs, unless it takes longer until each kind of fault has happened.
func duration(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv("FANOUTD_SOAK")
	if given == "" {
		return 12 * time.Second
	}
	d, err := time.ParseDuration(given)
	if err != nil {
		t.Fatalf("FANOUTD_SOAK: %v", err)
	}
	return d
}

func TestInformersSurviveFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	runWithFaults(t, 1)
}

func TestInformersSurviveFaultsOfTwoServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	runWithFaults(t, 2)
}

// cluster is everything that takes part in a test.
type cluster struct {
	etcd    *etcdproc.Member
	servers []*server
	proxies []*proxy // one in front of each server
	writer  *writer
	rng     *rand.Rand
	direct  *client.Client // reaches the servers without the proxies
	count   *counts

	subscribers []subscriber
	restarting  *restartingSubscriber // also one of subscribers
	programs    []*programSubscriber  // those with a state file; also subscribers
	busy        *gate                 // closed while there are faults
}

// runWithFaults injects faults into a cluster, in rounds that end with a comparison.
func runWithFaults(t *testing.T, servers int) {
	random := seed.New(t)
	etcd := etcdproc.StartMember(t, "http")
	c := &cluster{etcd: etcd, rng: random.Rand(0), writer: newWriter(t, etcd.Address, random.Rand(1)), count: &counts{}, busy: newGate()}
	var direct, proxied []string
	for range servers {
		s := startServer(t, etcd.Address)
		p := newProxy(t, s.address)
		c.servers, c.proxies = append(c.servers, s), append(c.proxies, p)
		direct, proxied = append(direct, s.address), append(proxied, p.address)
	}
	c.direct = dial(t, direct)
	one, two := dial(t, proxied), dial(t, proxied)
	shared, own, plain := one.Resource(cached), two.Resource(cached), two.Resource(uncached)
	c.restarting = newRestartingSubscriber(own, filepath.Join(t.TempDir(), "good"), c.count)
	latest := []client.InformerOption{client.Latest()}
	// These share a watch with the first informer.
	failing, busy := newInformerSubscriber("informer with a failing handler", shared, c.count, nil), newInformerSubscriber("informer with a busy handler", shared, c.count, nil)
	failing.failing, busy.busy = true, c.busy
	c.subscribers = []subscriber{
		newInformerSubscriber("informer", shared, c.count, nil),
		failing,
		busy,
		newInformerSubscriber("informer of a path", shared, c.count, nil, client.Prefix("b")),
		newInformerSubscriber("informer of a field", shared, c.count, nil, client.Fields("name=13")),
		newInformerSubscriber("informer of the latest", own, c.count, latest),
		c.restarting,
		newWatchSubscriber("watch", own, c.count),
		newInformerSubscriber("informer without a cache", plain, c.count, nil),
		newInformerSubscriber("informer of the latest of a path without a cache", one.Resource(uncached), c.count, latest, client.Prefix("b")),
		newWatchSubscriber("watch without a cache", plain, c.count),
	}
	faults := faults
	for _, p := range newProgramSubscribers(t, proxied) {
		c.subscribers = append(c.subscribers, p)
		if p.file != "" {
			c.programs = append(c.programs, p)
		}
	}
	if len(c.programs) > 0 {
		faults = append(slices.Clip(faults), programFaults...)
	}

	ctx, cancel := context.WithCancel(t.Context())
	running, ctx := errgroup.WithContext(ctx)
	for _, s := range c.subscribers {
		running.Go(func() error {
			if err := s.run(ctx); ctx.Err() == nil || !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			return nil
		})
	}
	defer func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	}()
	until := time.Now().Add(duration(t))
	order, everyKind := schedule(c.rng, faults)
	happened, count, rounds := 0, map[kind]int{}, 0
	for ; happened < everyKind || time.Now().Before(until); rounds++ {
		if len(order) == 0 {
			order, _ = schedule(c.rng, faults)
		}
		n := min(3, len(order))
		c.round(ctx, t, order[:n], everyKind-happened)
		if t.Failed() {
			return
		}
		for _, f := range order[:n] {
			happened++
			for _, k := range f.kinds {
				count[k]++
			}
		}
		order = order[n:]
	}
	c.count.mu.Lock()
	defer c.count.mu.Unlock()
	t.Logf("%d rounds, %d changes, %d handler calls, %d watch events, %d replacements, %d interruptions (%d by drains), %d starts of the restarting informer, %d new epochs",
		rounds, c.writer.changes.Load(), c.count.calls, c.count.events, c.count.replacements, c.count.interruptions, c.count.drains, c.count.starts, c.count.epochs)
	var each []string
	for _, k := range kinds {
		if count[k] > 0 {
			each = append(each, fmt.Sprintf("%s %d", k, count[k]))
		}
	}
	t.Logf("%d faults: %s", happened, strings.Join(each, ", "))
	if c.count.interruptions == 0 || c.count.calls == 0 {
		t.Errorf("got %d interruptions and %d handler calls, so the test shows nothing", c.count.interruptions, c.count.calls)
	}
}

func dial(t *testing.T, addresses []string) *client.Client {
	t.Helper()
	c, err := client.New(strings.Join(addresses, ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// round injects faults while objects change, then compares all subscribers. The first so many
// faults happen while the subscribers are connected.
func (c *cluster) round(ctx context.Context, t *testing.T, faults []fault, whileConnected int) {
	t.Helper()
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	var writers errgroup.Group
	writers.Go(func() error { return c.writer.write(writing) })
	open := c.busy.close()
	defer open()
	for i, f := range faults {
		c.awaitChanges(ctx, t, 20+c.rng.IntN(150))
		if i < whileConnected {
			c.awaitConnected(ctx, t)
		}
		began, at := time.Now(), c.rng.IntN(len(c.servers))
		f.inject(c, ctx, t, at)
		for _, p := range c.proxies {
			p.heal()
		}
		t.Logf("server %d: %s, for %v", at, f.name, time.Since(began).Round(time.Millisecond))
	}
	open()
	stopWriting()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	c.compare(ctx, t)
}

// awaitConnected waits until each subscriber of the cached resource receives changes.
func (c *cluster) awaitConnected(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	for _, s := range c.subscribers {
		if resource, _ := s.selection(); resource != cached {
			continue
		}
		before := s.at()
		if err := await(ctx, func() bool { at := s.at(); return at.Revision > 0 && at != before }); err != nil {
			t.Fatalf("%s: no changes since position %v: %v", s.name(), before, err)
		}
	}
}

// compare waits until all subscribers are up to date, and compares them with a List.
func (c *cluster) compare(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	began := time.Now()
	slowest, longest := "", time.Duration(0)
	for _, s := range c.subscribers {
		since := time.Now()
		resource, selected := s.selection()
		objects, at, err := c.list(ctx, resource, selected)
		if err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(5 * time.Millisecond)
		for p := s.at(); p.Epoch != at.Epoch || p.Revision < at.Revision || s.pending() != ""; p = s.at() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				t.Fatalf("%s: got position %v, want %v: %s", s.name(), p, at, s.pending())
			}
		}
		tick.Stop()
		if took := time.Since(since); took > longest {
			slowest, longest = s.name(), took
		}
		if diff := s.compare(objects); diff != "" {
			t.Errorf("%s at %v: %s", s.name(), at, diff)
		}
		if broken := s.violations(); len(broken) > 0 {
			t.Errorf("%s: %q", s.name(), broken)
		}
	}
	t.Logf("all subscribers were up to date after %v; the test waited longest for %s (%v)",
		time.Since(began).Round(time.Millisecond), slowest, longest.Round(time.Millisecond))
}

// list returns the objects of a selection and the position of the list.
func (c *cluster) list(ctx context.Context, resource string, selection []client.ListOption) (map[string]*client.Object, client.Position, error) {
	for {
		objects, at := map[string]*client.Object{}, client.Position{}
		var failed error
		for o, err := range c.direct.Resource(resource).List(ctx, append(selection[:len(selection):len(selection)], client.ListPosition(&at))...) {
			if failed = err; err == nil {
				objects[o.Key] = o
			}
		}
		// Retry: a restarted server may not be connected yet.
		if failed == nil || ctx.Err() != nil {
			return objects, at, failed
		}
	}
}

// awaitChanges waits for n more changes.
func (c *cluster) awaitChanges(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	if err := c.writer.await(ctx, n); err != nil {
		t.Fatal(err)
	}
}
