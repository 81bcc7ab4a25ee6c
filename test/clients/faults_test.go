package clients

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// kind is a kind of fault. Each kind happens at least once in a run.
type kind string

// The kinds of faults.
const (
	killed           kind = "server killed"
	drained          kind = "server drained"
	cutOff           kind = "connections cut off"
	delayed          kind = "connections slow or frozen"
	compacted        kind = "etcd compacted"
	restored         kind = "etcd restored"
	informerRestarts kind = "informer restarted"
	programRestarts  kind = "program restarted"
)

// kinds lists all kinds, in the order of the summary.
var kinds = []kind{killed, drained, cutOff, delayed, compacted, restored, informerRestarts, programRestarts}

// fault disturbs one of the servers. The test heals the proxies afterwards.
type fault struct {
	name   string
	kinds  []kind
	inject func(c *cluster, ctx context.Context, t *testing.T, server int)
}

// schedule returns all faults in random order, except that the first ones are of every kind.
func schedule(rng *rand.Rand, faults []fault) (order []fault, everyKind int) {
	seen := map[kind]bool{}
	var rest []fault
	for _, i := range rng.Perm(len(faults)) {
		f := faults[i]
		if !slices.ContainsFunc(f.kinds, func(k kind) bool { return !seen[k] }) {
			rest = append(rest, f)
			continue
		}
		order = append(order, f)
		for _, k := range f.kinds {
			seen[k] = true
		}
	}
	return append(order, rest...), len(order)
}

// faults are the faults of all runs. Those of programs are in programFaults.
var faults = []fault{
	{"killed", []kind{killed}, restart(syscall.SIGKILL, 100, false)},
	{"all servers drained in turn", []kind{drained}, drainAll(100, false)},
	{"killed, and etcd compacted", []kind{killed, compacted}, restart(syscall.SIGKILL, 300, true)},
	{"all servers drained in turn, and etcd compacted", []kind{drained, compacted}, drainAll(300, true)},
	{"etcd compacted", []kind{compacted}, func(c *cluster, ctx context.Context, t *testing.T, _ int) {
		if err := c.writer.compact(ctx); err != nil {
			t.Fatal(err)
		}
	}},
	{"connections dropped repeatedly", []kind{cutOff}, func(c *cluster, ctx context.Context, t *testing.T, server int) {
		for range 5 {
			c.proxies[server].drop()
			c.awaitChanges(ctx, t, 1+c.rng.IntN(60))
		}
	}},
	{"unreachable", []kind{cutOff}, func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].cut()
		c.awaitChanges(ctx, t, 400)
	}},
	{"unreachable, and dropped during the catch-up", []kind{cutOff}, func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].cut()
		c.awaitChanges(ctx, t, 250)
		c.proxies[server].heal()
		c.proxies[server].slow(4 * time.Millisecond) // makes catch-ups last
		for range 8 {
			c.awaitChanges(ctx, t, 20+c.rng.IntN(100))
			c.proxies[server].drop()
		}
	}},
	{"slow", []kind{delayed}, func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.proxies[server].slow(time.Duration(1+c.rng.IntN(50)) * time.Millisecond)
		c.awaitChanges(ctx, t, 200)
	}},
	{"frozen to the client", []kind{delayed}, freeze(toClient)},
	{"frozen to the server", []kind{delayed}, freeze(toServer)},
	{"half-closed to the client", []kind{cutOff}, halfClose(toClient)},
	{"half-closed to the server", []kind{cutOff}, halfClose(toServer)},
	{"etcd restored from a backup", []kind{restored}, func(c *cluster, ctx context.Context, t *testing.T, _ int) { c.restoreEtcd(ctx, t) }},
	{"killed, and etcd restored from a backup", []kind{killed, restored}, func(c *cluster, ctx context.Context, t *testing.T, server int) {
		c.servers[server].end(t, syscall.SIGKILL)
		c.restoreEtcd(ctx, t)
		c.servers[server].start(t)
	}},
	{"an informer restarted", []kind{informerRestarts}, restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.awaitChanges(ctx, t, c.rng.IntN(500))
		c.restarting.begin()
		return nil
	})},
	{"an informer restarted, and etcd restored from a backup", []kind{informerRestarts, restored}, restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.restoreEtcd(ctx, t)
		c.restarting.begin()
		return nil
	})},
	{"an informer restarted with a damaged file", []kind{informerRestarts}, restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.awaitChanges(ctx, t, c.rng.IntN(100))
		return c.restarting.beginDamaged(ctx, c.rng, false)
	})},
	{"an informer restarted without servers", []kind{informerRestarts}, restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.cutAll()
		c.awaitChanges(ctx, t, c.rng.IntN(500))
		return c.restarting.beginWithoutServers(ctx)
	})},
	{"an informer restarted with a damaged file and without servers", []kind{informerRestarts}, restartInformer(func(c *cluster, ctx context.Context, t *testing.T) error {
		c.cutAll()
		return c.restarting.beginDamaged(ctx, c.rng, true)
	})},
}

// programFaults are the faults of the programs that have a state file.
var programFaults = []fault{
	{"programs restarted without servers", []kind{programRestarts}, func(c *cluster, ctx context.Context, t *testing.T, _ int) {
		for _, p := range c.programs {
			if err := p.awaitSync(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c.cutAll()
		for _, p := range c.programs {
			if err := p.restartWithoutServers(ctx); err != nil {
				t.Errorf("%s: %v", p.name(), err)
			}
		}
	}},
	{"programs killed and started", []kind{programRestarts}, func(c *cluster, ctx context.Context, t *testing.T, _ int) {
		for _, p := range c.programs {
			if err := p.awaitSync(ctx); err != nil {
				t.Fatal(err)
			}
			p.kill()
		}
		c.awaitChanges(ctx, t, c.rng.IntN(500))
		for _, p := range c.programs {
			p.start()
		}
	}},
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

// drainAll restarts all servers, so that it reaches each watch.
func drainAll(changes int, compact bool) func(*cluster, context.Context, *testing.T, int) {
	return func(c *cluster, ctx context.Context, t *testing.T, first int) {
		for i := range c.servers {
			restart(syscall.SIGTERM, changes, compact)(c, ctx, t, (first+i)%len(c.servers))
		}
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
