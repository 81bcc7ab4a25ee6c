package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/seed"
)

// duration returns how long a test is to go on.
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

func TestInformersSurviveFaults(t *testing.T)             { suffer(t, 1) }
func TestInformersSurviveFaultsOfTwoServers(t *testing.T) { suffer(t, 2) }

// world is what a test happens in.
type world struct {
	servers []*server
	proxies []*proxy
	writer  *writer
	rng     *rand.Rand
	witness *client.Resource // knows the servers without the proxies
	count   *counts

	subscribers []subscriber
}

// suffer has faults happen to some servers, in rounds that end with a quiet point.
func suffer(t *testing.T, servers int) {
	random := seed.New(t)
	etcd := etcdproc.Start(t, "http")
	w := &world{rng: random.Rand(0), writer: newWriter(t, etcd, random.Rand(1)), count: &counts{}}
	var direct, through []string
	for range servers {
		s := startServer(t, etcd)
		p := newProxy(t, s.address)
		w.servers, w.proxies = append(w.servers, s), append(w.proxies, p)
		direct, through = append(direct, s.address), append(through, p.address)
	}
	w.witness = w.dial(t, direct).Resource(resource)
	shared, own := w.dial(t, through).Resource(resource), w.dial(t, through).Resource(resource)
	good := client.LastKnownGood(filepath.Join(t.TempDir(), "good"), 64<<20)
	w.subscribers = []subscriber{
		newInformed("of all", shared, w.count, nil),
		newInformed("of a path", shared, w.count, nil, client.Prefix("b")),
		newInformed("of a field", shared, w.count, nil, client.Fields("name=13")),
		newInformed("of the latest", own, w.count, []client.InformerOption{client.Latest()}),
		newInformed("that saves", own, w.count, []client.InformerOption{good}),
		newWatching("by itself", own, w.count),
	}

	ctx, cancel := context.WithCancel(t.Context())
	running, ctx := errgroup.WithContext(ctx)
	for _, s := range w.subscribers {
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
	rounds := 0
	for order := []int(nil); rounds == 0 || time.Now().Before(until); rounds++ {
		if len(order) == 0 {
			order = w.rng.Perm(len(faults))
		}
		n := min(3, len(order))
		w.round(ctx, t, order[:n])
		order = order[n:]
		if t.Failed() {
			return
		}
	}
	w.count.mu.Lock()
	defer w.count.mu.Unlock()
	t.Logf("%d quiet points; %d changes; handlers were told %d times; the watch had %d events and %d replacements; %d interruptions",
		rounds, w.writer.changes.Load(), w.count.told, w.count.events, w.count.replaced, w.count.interruptions)
	if w.count.interruptions == 0 || w.count.told == 0 {
		t.Error("nothing happened")
	}
}

func (w *world) dial(t *testing.T, addresses []string) *client.Client {
	t.Helper()
	c, err := client.New(strings.Join(addresses, ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// round has some faults happen while objects change, and looks at everybody then.
func (w *world) round(ctx context.Context, t *testing.T, which []int) {
	t.Helper()
	writing, quiet := context.WithCancel(ctx)
	defer quiet()
	var writers errgroup.Group
	writers.Go(func() error { return w.writer.write(writing) })
	for _, f := range which {
		w.changes(ctx, t, 20+w.rng.IntN(150))
		began, at := time.Now(), w.rng.IntN(len(w.servers))
		faults[f].do(w, ctx, t, at)
		for _, p := range w.proxies {
			p.heal()
		}
		t.Logf("server %d: %s, for %v", at, faults[f].name, time.Since(began).Round(time.Millisecond))
	}
	quiet()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	w.look(ctx, t)
}

// look waits for everybody to be up to date, and compares what they have.
func (w *world) look(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	began := time.Now()
	for _, s := range w.subscribers {
		objects, at, err := w.list(ctx, s.selection())
		if err != nil {
			t.Fatal(err)
		}
		look := time.NewTicker(5 * time.Millisecond)
		for p := s.at(); p.Epoch != at.Epoch || p.Revision < at.Revision || s.compare(objects) == "it is stale"; p = s.at() {
			select {
			case <-look.C:
			case <-ctx.Done():
				look.Stop()
				t.Fatalf("%s is still at %v, not %v", s.name(), p, at)
			}
		}
		look.Stop()
		if diff := s.compare(objects); diff != "" {
			t.Errorf("%s at %v: %s", s.name(), at, diff)
		}
		if faults := s.illegal(); len(faults) > 0 {
			t.Errorf("%s: %q", s.name(), faults)
		}
	}
	t.Logf("quiet after %v", time.Since(began).Round(time.Millisecond))
}

// list returns what there is.
func (w *world) list(ctx context.Context, selection []client.ListOption) (map[string]*client.Object, client.Position, error) {
	for {
		objects, at := map[string]*client.Object{}, client.Position{}
		var failed error
		for o, err := range w.witness.List(ctx, append(selection[:len(selection):len(selection)], client.ListPosition(&at))...) {
			if failed = err; err == nil {
				objects[o.Key] = o
			}
		}
		// The connection may not be there again.
		if failed == nil || ctx.Err() != nil {
			return objects, at, failed
		}
	}
}

// changes waits for so many changes.
func (w *world) changes(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	if err := w.writer.more(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// fault is something that goes wrong with one of the servers, and is right again
// once the proxies are healed.
type fault struct {
	name string
	do   func(w *world, ctx context.Context, t *testing.T, at int)
}

var faults = []fault{
	{"killed", restart(syscall.SIGKILL, 100, false)},
	{"stopped", restart(syscall.SIGTERM, 100, false)},
	{"killed, and etcd compacted", restart(syscall.SIGKILL, 300, true)},
	{"stopped, and etcd compacted", restart(syscall.SIGTERM, 300, true)},
	{"etcd compacted", func(w *world, ctx context.Context, t *testing.T, _ int) {
		if err := w.writer.compact(ctx); err != nil {
			t.Fatal(err)
		}
	}},
	{"connections dropped, again and again", func(w *world, ctx context.Context, t *testing.T, at int) {
		for range 5 {
			w.proxies[at].drop()
			w.changes(ctx, t, 1+w.rng.IntN(60))
		}
	}},
	{"out of reach", func(w *world, ctx context.Context, t *testing.T, at int) {
		w.proxies[at].cut()
		w.changes(ctx, t, 400)
	}},
	{"out of reach, and dropped in the catch-up", func(w *world, ctx context.Context, t *testing.T, at int) {
		w.proxies[at].cut()
		w.changes(ctx, t, 250)
		w.proxies[at].heal()
		w.proxies[at].slow(4 * time.Millisecond) // catch-ups take their time
		for range 8 {
			w.changes(ctx, t, 20+w.rng.IntN(100))
			w.proxies[at].drop()
		}
	}},
	{"slow", func(w *world, ctx context.Context, t *testing.T, at int) {
		w.proxies[at].slow(time.Duration(1+w.rng.IntN(50)) * time.Millisecond)
		w.changes(ctx, t, 200)
	}},
	{"silent", freeze(toClient)},
	{"deaf", freeze(toServer)},
	{"half-closed to the client", halfClose(toClient)},
	{"half-closed to the server", halfClose(toServer)},
}

func restart(signal syscall.Signal, changes int, compact bool) func(*world, context.Context, *testing.T, int) {
	return func(w *world, ctx context.Context, t *testing.T, at int) {
		w.servers[at].end(t, signal)
		w.changes(ctx, t, changes)
		if compact {
			if err := w.writer.compact(ctx); err != nil {
				t.Fatal(err)
			}
		}
		w.servers[at].start(t)
	}
}

func freeze(direction int) func(*world, context.Context, *testing.T, int) {
	return func(w *world, ctx context.Context, t *testing.T, at int) {
		w.proxies[at].freeze(direction)
		w.changes(ctx, t, 300)
	}
}

func halfClose(direction int) func(*world, context.Context, *testing.T, int) {
	return func(w *world, ctx context.Context, t *testing.T, at int) {
		w.proxies[at].halfClose(direction)
		w.changes(ctx, t, 50)
	}
}
