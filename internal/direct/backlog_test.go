package direct_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/grpcproxy"
)

// behindProxy returns a source that reaches its etcd through a proxy, and one that bypasses it.
func behindProxy(t *testing.T, maxSend int) (f, bypass *fixture, proxy *grpcproxy.Proxy) {
	t.Helper()
	address := etcdproc.Start(t, "http")
	proxy = grpcproxy.Start(t, grpcproxy.Config{Target: address, MaxSend: maxSend})
	dial := func(endpoint string) *fixture {
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{endpoint}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		return newFixture(t, s, address, direct.Config{})
	}
	return dial(proxy.Address), dial(address), proxy
}

// A watch gets a RESET if the store cannot send it a change, and ends if it wants every event.
// It does not make the store read the change again and again.
func TestChangeThatTheStoreCannotSend(t *testing.T) {
	f, bypass, proxy := behindProxy(t, 512<<10)
	from := f.position(t)
	bypass.commit(t, f.put("k", strings.Repeat("x", 1_000_000), nil))
	last := bypass.commit(t, f.put("k", "small", nil))
	for name, begin := range map[string]func(t *testing.T, o dispatch.Options) *watcher{
		"resume": func(t *testing.T, o dispatch.Options) *watcher {
			w := f.watch(t, feed.Interest{}, catchup.FromPosition(from), o)
			w.begins(t, object.Replay)
			return w
		},
		"live": func(t *testing.T, o dispatch.Options) *watcher {
			w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), o)
			w.next(t, object.Bookmark)
			bypass.commit(t, f.put("k", strings.Repeat("x", 1_000_000), nil))
			last = bypass.commit(t, f.put("k", "small", nil))
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := proxy.Requests("Watch")
			w := begin(t, dispatch.Options{})
			w.begins(t, object.Reset)
			if m := w.next(t, object.CatchUpPart); show(m) != fmt.Sprintf("+k@%d", last) {
				t.Errorf("snapshot: got %s", show(m))
			}
			w.next(t, object.Synced)
			last = bypass.commit(t, f.put("k", "live", nil))
			if m := w.next(t, object.Live); show(m) != fmt.Sprintf("~k@%d", last) {
				t.Errorf("live: got %s", show(m))
			}
			// One watch of each tail, one with fragments, and progress requests.
			if n := proxy.Requests("Watch") - asked; n > 20 {
				t.Errorf("got %d requests for changes, want a few", n)
			}
			w = begin(t, dispatch.Options{EveryEvent: true})
			if err := ends[*catchup.LostError](t, w); err.Oldest <= err.Asked {
				t.Errorf("end of a watch of every event: got %+v", err)
			}
		})
	}
}

// countedStore counts the watches of a store.
type countedStore struct {
	direct.Store
	watches atomic.Int64
}

func (s *countedStore) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	s.watches.Add(1)
	return s.Store.Watch(ctx, scope, after, previous)
}

// Watches that resume far behind cost a limited amount of memory, however large the changes are,
// and read them only once.
func TestResumeFarBehindCostsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const changes, size, watchers = 60, 1_000_000, 4
	test := func(t *testing.T, f *fixture, counted *countedStore) {
		from := f.position(t)
		for range changes {
			f.commit(t, f.put("k", strings.Repeat("x", size), nil))
		}
		before := heap()
		var all []*watcher
		received := make([]int, watchers)
		for i := range watchers {
			w := f.watch(t, feed.Interest{}, catchup.FromPosition(from), dispatch.Options{})
			w.begins(t, object.Replay)
			received[i] = len(w.next(t, object.CatchUpPart).Events)
			all = append(all, w)
		}
		if grown := heap() - before; grown > watchers*25*size {
			t.Errorf("growth of the heap: got %d MiB, want at most 25 for each watcher", grown>>20)
		}
		for i, w := range all {
			for {
				m, err := w.receive(contextFor(t))
				if err != nil {
					t.Fatal(err)
				}
				if received[i] += len(m.Events); m.Kind == object.Synced {
					break
				}
			}
			if received[i] != changes {
				t.Errorf("got %d changes, want %d", received[i], changes)
			}
		}
		// A watch whose reader waits longer than fullWait begins again.
		if n := counted.watches.Load(); n > 2*watchers {
			t.Errorf("%d watchers watched the store %d times", watchers, n)
		}
	}
	t.Run("embedded", func(t *testing.T) {
		counted := &countedStore{}
		test(t, startWrapped(t, direct.Config{}, func(s direct.Store) direct.Store {
			counted.Store = s
			return counted
		}), counted)
	})
	t.Run("external", func(t *testing.T) {
		counted := &countedStore{}
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{etcdproc.Start(t, "http")}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		counted.Store = collection(s)
		test(t, newFixture(t, s, "", direct.Config{Store: counted}), counted)
	})
}
