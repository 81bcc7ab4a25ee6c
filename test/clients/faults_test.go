package clients

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

// fault disturbs one of the servers. The test heals the proxies afterwards.
type fault struct {
	name   string
	inject func(c *cluster, ctx context.Context, t *testing.T, server int)
}

var faults = []fault{
	{"killed", restart(syscall.SIGKILL, 100, false)},
	{"stopped", restart(syscall.SIGTERM, 100, false)},
	{"killed, and etcd compacted", restart(syscall.SIGKILL, 300, true)},
	{"stopped, and etcd compacted", restart(syscall.SIGTERM, 300, true)},
	{"etcd compacted", func(c *cluster, ctx context.Context, t *testing.T, _ int) {
		if err := c.writer.compact(ctx); err != nil {
			t.Fatal(err)
		}
	}},
	{"connections dropped repeatedly", func(c *cluster, ctx context.Context, t *testing.T, server int) {
		for range 5 {
			c.proxies[server].drop()
			c.awaitChanges(ctx, t, 1+c.rng.IntN(60))
		}
	}},
	{"unreachable", func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].cut()
		c.awaitChanges(ctx, t, 400)
	}},
	{"unreachable, and dropped during the catch-up", func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].cut()
		c.awaitChanges(ctx, t, 250)
		c.proxies[server].heal()
		c.proxies[server].slow(4 * time.Millisecond) // makes catch-ups last
		for range 8 {
			c.awaitChanges(ctx, t, 20+c.rng.IntN(100))
			c.proxies[server].drop()
		}
	}},
	{"slow", func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].slow(time.Duration(1+c.rng.IntN(50)) * time.Millisecond)
		c.awaitChanges(ctx, t, 200)
	}},
	{"frozen to the client", freeze(toClient)},
	{"frozen to the server", freeze(toServer)},
	{"half-closed to the client", halfClose(toClient)},
	{"half-closed to the server", halfClose(toServer)},
	{"etcd restored from a backup", func(c *cluster, ctx context.Context, t *testing.T, _ int) { c.restoreEtcd(ctx, t) }},
	{"killed, and etcd restored from a backup", func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.servers[server].end(t, syscall.SIGKILL)
		c.restoreEtcd(ctx, t)
		c.servers[server].start(t)
	}},
	{"an informer restarted", restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.awaitChanges(ctx, t, c.rng.IntN(500))
		c.restarting.begin()
		return nil
	})},
	{"an informer restarted, and etcd restored from a backup", restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.restoreEtcd(ctx, t)
		c.restarting.begin()
		return nil
	})},
	{"an informer restarted with a damaged file", restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.awaitChanges(ctx, t, c.rng.IntN(100))
		return c.restarting.beginDamaged(ctx, c.rng, false)
	})},
	{"an informer restarted without servers", restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.cutAll()
		c.awaitChanges(ctx, t, c.rng.IntN(500))
		return c.restarting.beginWithoutServers(ctx)
	})},
	{"an informer restarted with a damaged file and without servers", restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.cutAll()
		return c.restarting.beginDamaged(ctx, c.rng, true)
	})},
}

// restoreEtcd restores etcd from a backup, so that it forgets the latest writes and gets
// another identity.
func (c *cluster) restoreEtcd(ctx context.Context, t *testing.T) {
	t.Helper()
	backup := c.etcd.Snapshot(t)
	c.awaitChanges(ctx, t, 20+c.rng.IntN(150))
	var flags []string
	if c.rng.IntN(3) == 0 {
		flags = []string{"--bump-revision", "100000", "--mark-compacted"}
	}
	c.etcd.Kill(t)
	c.etcd.Restore(t, backup, flags...)
	c.etcd.Start(t)
	if err := os.Remove(backup); err != nil { // a soak makes many of them
		t.Fatal(err)
	}
	c.awaitChanges(ctx, t, 1+c.rng.IntN(300))
}

// restartInformer ends the informer that has a file, and calls begin to start a new one.
func restartInformer(begin func(*cluster, context.Context, *testing.T) error) func(*cluster, context.Context, *testing.T, int) {
	return func(c *cluster, ctx context.Context, t *testing.T, _ int) {
		// Without a state the informer would save nothing.
		if err := c.restarting.informer.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.restarting.end(ctx); err != nil {
			t.Fatal(err)
		}
		if err := begin(c, ctx, t); err != nil {
			t.Errorf("%s: %v", c.restarting.name(), err)
		}
	}
}

// cutAll makes all servers unreachable.
func (c *cluster) cutAll() {
	for _, p := range c.proxies {
		p.cut()
	}
}

func restart(signal syscall.Signal, changes int, compact bool) func(*cluster, context.Context, *testing.T, int) {
	return func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.servers[server].end(t, signal)
		c.awaitChanges(ctx, t, changes)
		if compact {
			if err := c.writer.compact(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c.servers[server].start(t)
	}
}

func freeze(d direction) func(*cluster, context.Context, *testing.T, int) {
	return func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].freeze(d)
		c.awaitChanges(ctx, t, 300)
	}
}

func halfClose(d direction) func(*cluster, context.Context, *testing.T, int) {
	return func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].halfClose(d)
		c.awaitChanges(ctx, t, 50)
	}
}
