package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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
	etcd    *etcdproc.Member
	servers []*server
	proxies []*proxy
	writer  *writer
	rng     *rand.Rand
	witness *client.Client // knows the servers without the proxies
	count   *counts

	subscribers []subscriber
	saving      *restarted // one of them
}

// suffer has faults happen to some servers, in rounds that end with a quiet point.
func suffer(t *testing.T, servers int) {
	random := seed.New(t)
	etcd := etcdproc.StartMember(t, "http")
	w := &world{etcd: etcd, rng: random.Rand(0), writer: newWriter(t, etcd.Address, random.Rand(1)), count: &counts{}}
	var direct, through []string
	for range servers {
		s := startServer(t, etcd.Address)
		p := newProxy(t, s.address)
		w.servers, w.proxies = append(w.servers, s), append(w.proxies, p)
		direct, through = append(direct, s.address), append(through, p.address)
	}
	w.witness = w.dial(t, direct)
	one, two := w.dial(t, through), w.dial(t, through)
	shared, own, plain := one.Resource(cached), two.Resource(cached), two.Resource(uncached)
	w.saving = newRestarted(own, filepath.Join(t.TempDir(), "good"), w.count)
	latest := []client.InformerOption{client.Latest()}
	w.subscribers = []subscriber{
		newInformed("of all", shared, w.count, nil),
		newInformed("of a path", shared, w.count, nil, client.Prefix("b")),
		newInformed("of a field", shared, w.count, nil, client.Fields("name=13")),
		newInformed("of the latest", own, w.count, latest),
		w.saving,
		newWatching("by itself", own, w.count),
		newInformed("of what has no cache", plain, w.count, nil),
		newInformed("of the latest of a path without a cache", one.Resource(uncached), w.count, latest, client.Prefix("b")),
		newWatching("by itself, without a cache", plain, w.count),
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
	t.Logf("%d quiet points; %d changes; handlers were told %d times; the watches had %d events and %d replacements; %d interruptions; an informer lived %d times; informers came into %d new epochs",
		rounds, w.writer.changes.Load(), w.count.told, w.count.events, w.count.replaced, w.count.interruptions, w.count.lives, w.count.epochs)
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
		resource, selected := s.selection()
		objects, at, err := w.list(ctx, resource, selected)
		if err != nil {
			t.Fatal(err)
		}
		look := time.NewTicker(5 * time.Millisecond)
		for p := s.at(); p.Epoch != at.Epoch || p.Revision < at.Revision || s.behind() != ""; p = s.at() {
			select {
			case <-look.C:
			case <-ctx.Done():
				look.Stop()
				t.Fatalf("%s is still at %v, has to be at %v: %s", s.name(), p, at, s.behind())
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
func (w *world) list(ctx context.Context, resource string, selection []client.ListOption) (map[string]*client.Object, client.Position, error) {
	for {
		objects, at := map[string]*client.Object{}, client.Position{}
		var failed error
		for o, err := range w.witness.Resource(resource).List(ctx, append(selection[:len(selection):len(selection)], client.ListPosition(&at))...) {
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
