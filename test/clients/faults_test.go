package clients

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

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
	{"etcd restored from a backup", func(w *world, ctx context.Context, t *testing.T, _ int) { w.restore(ctx, t) }},
	{"killed, and etcd restored from a backup", func(w *world, ctx context.Context, t *testing.T, at int) {
		w.servers[at].end(t, syscall.SIGKILL)
		w.restore(ctx, t)
		w.servers[at].start(t)
	}},
	{"an informer restarted", rebegin(func(w *world, ctx context.Context, t *testing.T) error {
		w.changes(ctx, t, w.rng.IntN(500))
		w.saving.begin()
		return nil
	})},
	{"an informer restarted, and etcd restored from a backup", rebegin(func(w *world, ctx context.Context, t *testing.T) error {
		w.restore(ctx, t)
		w.saving.begin()
		return nil
	})},
	{"an informer restarted with a damaged file", rebegin(func(w *world, ctx context.Context, t *testing.T) error {
		w.changes(ctx, t, w.rng.IntN(100))
		return w.saving.beginDamaged(ctx, w.rng, false)
	})},
	{"an informer restarted while out of reach", rebegin(func(w *world, ctx context.Context, t *testing.T) error {
		w.cutAll()
		w.changes(ctx, t, w.rng.IntN(500))
		return w.saving.beginAlone(ctx)
	})},
	{"an informer restarted with a damaged file while out of reach", rebegin(func(w *world, ctx context.Context, t *testing.T) error {
		w.cutAll()
		return w.saving.beginDamaged(ctx, w.rng, true)
	})},
}

// restore has etcd forget what was last written, and be another one.
func (w *world) restore(ctx context.Context, t *testing.T) {
	t.Helper()
	backup := w.etcd.Snapshot(t)
	w.changes(ctx, t, 20+w.rng.IntN(150))
	var flags []string
	if w.rng.IntN(3) == 0 {
		flags = []string{"--bump-revision", "100000", "--mark-compacted"}
	}
	w.etcd.Kill(t)
	w.etcd.Restore(t, backup, flags...)
	w.etcd.Start(t)
	if err := os.Remove(backup); err != nil { // there may be very many
		t.Fatal(err)
	}
	w.changes(ctx, t, 1+w.rng.IntN(300))
}

// rebegin has the informer with a file restarted.
func rebegin(begin func(*world, context.Context, *testing.T) error) func(*world, context.Context, *testing.T, int) {
	return func(w *world, ctx context.Context, t *testing.T, _ int) {
		// Only who has a state leaves one behind.
		if err := w.saving.informer.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		if err := w.saving.end(ctx); err != nil {
			t.Fatal(err)
		}
		if err := begin(w, ctx, t); err != nil {
			t.Errorf("%s: %v", w.saving.name(), err)
		}
	}
}

// cutAll has nobody reach a server.
func (w *world) cutAll() {
	for _, p := range w.proxies {
		p.cut()
	}
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
