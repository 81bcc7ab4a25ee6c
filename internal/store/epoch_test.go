package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// epochOf returns the epoch as a collection sees it. Where etcd is coming back it
// asks again.
func epochOf(t testing.TB, c *store.Collection) object.Epoch {
	t.Helper()
	ctx := contextFor(t)
	for {
		epoch, err := c.Epoch(ctx)
		if err == nil {
			return epoch
		}
		if ctx.Err() != nil || !errors.Is(err, object.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// replica returns what a server has of an etcd: a store of its own.
func replica(t *testing.T, members ...*etcdproc.Member) *store.Collection {
	t.Helper()
	var cfg store.ExternalConfig
	for _, m := range members {
		cfg.Endpoints = append(cfg.Endpoints, m.Address)
	}
	return dialStore(t, cfg)
}

func TestEpochs(t *testing.T) {
	epochs := map[object.Epoch]bool{}
	for range 2 {
		both(t, func(t *testing.T, e *etcd) {
			epoch := epochOf(t, e.collection())
			if again := epochOf(t, e.Collection("other", "/other/")); epoch != again {
				t.Errorf("%q and %q", epoch, again)
			}
			if len(epoch) != 25 {
				t.Errorf("epoch %q", epoch)
			}
			epochs[epoch] = true
		})
	}
	if len(epochs) != 4 {
		t.Errorf("four etcds have the epochs %v", epochs)
	}
}

// Servers that come to a new etcd at the same time agree.
func TestEpochIsAgreedUpon(t *testing.T) {
	m := etcdproc.StartMember(t, "http")
	client := etcdClient(t, m.Address)
	for range 10 {
		if _, err := client.Delete(t.Context(), store.EpochKey); err != nil {
			t.Fatal(err)
		}
		epochs := make([]object.Epoch, 8)
		var asking sync.WaitGroup
		for i := range epochs {
			c := replica(t, m)
			asking.Go(func() { epochs[i] = epochOf(t, c) })
		}
		asking.Wait()
		for _, epoch := range epochs {
			if epoch != epochs[0] {
				t.Fatalf("the epochs are %v", epochs)
			}
		}
	}
}

// Asking for the epoch writes when it is asked for the first time, and never
// again: revisions are everybody's.
func TestEpochIsWrittenOnce(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		epochOf(t, c)
		first := commit(t, c, put("k", "v"))
		if first > 5 {
			t.Errorf("the first write is revision %d", first)
		}
		for range 10 {
			epochOf(t, c)
		}
		if now, err := c.Revision(contextFor(t)); err != nil || now != first {
			t.Errorf("%d revisions were made, %v", now-first, err)
		}
	})
}

// An epoch outlives its servers, elections, and all kinds of entries in the log of
// raft.
func TestEpochOutlivesMembers(t *testing.T) {
	t.Parallel()
	members := etcdproc.StartCluster(t, 3)
	c := replica(t, members...)
	epoch := epochOf(t, c)
	ctx, stop := context.WithCancel(contextFor(t))
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	for i := range 2 {
		client := etcdClient(t, members[i].Address, members[2].Address)
		busy.Go(func() {
			for ctx.Err() == nil {
				// What fails while there is no leader does not matter here.
				lease, err := client.Grant(ctx, 60)
				if err != nil {
					continue
				}
				_, _ = client.Put(ctx, prefix+"k", "v", clientv3.WithLease(lease.ID))
				_, _ = client.Txn(ctx).If(clientv3.Compare(clientv3.Version("no"), ">", 0)).Then(clientv3.OpPut("no", "")).Commit()
				_, _ = client.Revoke(ctx, lease.ID)
			}
		})
	}
	for _, m := range members {
		m.Kill(t)
		for range 5 {
			if now := epochOf(t, c); now != epoch {
				t.Fatalf("the epoch was %s and is %s", epoch, now)
			}
		}
		m.Start(t)
		for range 20 {
			if now := epochOf(t, replica(t, m)); now != epoch {
				t.Fatalf("the epoch was %s and is %s", epoch, now)
			}
		}
	}
}

// awaitEnd waits until the stream ends, as it does when etcd has gone back.
func awaitEnd(t *testing.T, s object.Stream) {
	t.Helper()
	ctx := contextFor(t)
	for {
		_, err := s.Next(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, object.ErrUnavailable) {
			t.Fatalf("the stream ends with %v", err)
		}
		return
	}
}

// putMany writes n revisions.
func putMany(t *testing.T, c *store.Collection, n int) {
	t.Helper()
	for i := range n {
		commit(t, c, put("k", fmt.Sprint(i)))
	}
}

// However a backup was made and brought back, positions from before are void.
func TestRestoredEtcdHasANewEpoch(t *testing.T) {
	// Each returns what brings back the state of the moment at which it is called.
	backups := map[string]func(t *testing.T, m *etcdproc.Member) (bringBack func()){
		"snapshot restore": func(t *testing.T, m *etcdproc.Member) func() {
			snapshot := m.Snapshot(t)
			return func() { m.Restore(t, snapshot) }
		},
		"snapshot restore with higher revisions": func(t *testing.T, m *etcdproc.Member) func() {
			snapshot := m.Snapshot(t)
			return func() { m.Restore(t, snapshot, "--bump-revision", "1000000", "--mark-compacted") }
		},
		"data directory put back": func(t *testing.T, m *etcdproc.Member) func() {
			m.Kill(t)
			backup := m.Copy(t)
			m.Start(t)
			return func() { m.PutBack(t, backup) }
		},
	}
	for name, backup := range backups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			one, other := replica(t, m), replica(t, m)
			before := epochOf(t, one)
			putMany(t, one, 20)
			bringBack := backup(t, m)
			putMany(t, one, 20)
			if again := epochOf(t, other); again != before {
				t.Fatalf("the epochs are %s and %s", before, again)
			}
			now, err := other.Revision(contextFor(t))
			if err != nil {
				t.Fatal(err)
			}
			streams := []object.Stream{watch(t, one, now), watch(t, other, now)}

			m.Kill(t)
			bringBack()
			m.Start(t)

			for _, s := range streams {
				awaitEnd(t, s)
			}
			after := epochOf(t, one)
			if after == before {
				t.Error("the epoch is the same as before")
			}
			if again := epochOf(t, other); again != after {
				t.Errorf("the epochs are %s and %s", after, again)
			}
			// Who comes later agrees, and so does everybody after a restart.
			m.Kill(t)
			m.Start(t)
			for _, c := range []*store.Collection{one, other, replica(t, m)} {
				if again := epochOf(t, c); again != after {
					t.Errorf("the epochs are %s and %s", after, again)
				}
			}
		})
	}
}

// A watch that goes on by itself when etcd is there again tells nothing of an etcd
// that was restored meanwhile, though that has come further than it was before.
func TestStreamTellsNothingOfARestoredEtcd(t *testing.T) {
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	own, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, own) })
	own.StopMonitor() // who might be faster than the stream, and might not
	c := own.Collection("test", prefix)
	epochOf(t, c)
	snapshot := m.Snapshot(t)
	putMany(t, c, 5)
	last, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	s := watch(t, c, last)
	last = commit(t, c, put("k", "v"))
	next(t, s)
	m.Kill(t)
	m.Restore(t, snapshot)
	m.Start(t)
	write(t, etcdClient(t, m.Address), 100)
	for ctx := contextFor(t); ; {
		u, err := s.Next(ctx)
		if err == nil && len(u.Records) == 0 && u.Through <= last {
			continue
		}
		if !errors.Is(err, object.ErrUnavailable) {
			t.Fatalf("after revision %d comes %+v, %v", last, u, err)
		}
		return
	}
}

// Who asks where the store is, or for what is in it, is told nothing of a restored
// etcd under the epoch of the old one, though that etcd has revisions that are new.
func TestReadsTellNothingOfARestoredEtcd(t *testing.T) {
	for name, read := range map[string]func(c *store.Collection, at object.Position) (object.Epoch, error){
		"position": func(c *store.Collection, _ object.Position) (object.Epoch, error) {
			p, err := c.Position(t.Context())
			return p.Epoch, err
		},
		"list": func(c *store.Collection, at object.Position) (object.Epoch, error) {
			_, _, err := c.ListScope(t.Context(), at.Revision, object.Scope{}, "", 10)
			return at.Epoch, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			own, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, quiet())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeStore(t, own) })
			own.StopMonitor() // who might be faster, and might not
			c := own.Collection("test", prefix)
			snapshot := m.Snapshot(t)
			putMany(t, c, 5)
			before, err := c.Position(contextFor(t))
			if err != nil {
				t.Fatal(err)
			}
			m.Kill(t)
			m.Restore(t, snapshot)
			m.Start(t)
			write(t, etcdClient(t, m.Address), 100)
			for ctx := contextFor(t); ; {
				epoch, err := read(c, before)
				if err == nil && epoch == before.Epoch {
					t.Fatal("it is told under the old epoch")
				}
				if err == nil || strings.Contains(err.Error(), "another history") {
					return
				}
				if ctx.Err() != nil || !errors.Is(err, object.ErrUnavailable) {
					t.Fatal(err)
				}
			}
		})
	}
}

// A restored snapshot is recognized by who has never seen the etcd before, also if
// it was made at once, if it is a restored one itself, and if the log is longer
// again by then, with writes and with what writes nothing.
func TestRestoredSnapshotIsRecognizedByItself(t *testing.T) {
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	client := etcdClient(t, m.Address)
	visit := func() object.Epoch {
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, s)
		return epochOf(t, s.Collection("test", prefix))
	}
	epochs := map[object.Epoch]bool{}
	for range 4 {
		epochs[visit()] = true
		snapshot := m.Snapshot(t)
		write(t, client, 3)
		m.Kill(t)
		m.Restore(t, snapshot)
		m.Start(t)
		write(t, client, 100)
		for range 10 {
			if _, err := client.Grant(contextFor(t), 600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(epochs) != 4 {
		t.Errorf("the epochs are %v", epochs)
	}
}

// write writes n revisions with etcd's own client.
func write(t *testing.T, client *clientv3.Client, n int) {
	t.Helper()
	ctx := contextFor(t)
	for range n {
		if _, err := client.Put(ctx, prefix+"k", "v"); err != nil {
			t.Fatal(err)
		}
	}
}

// Until the epoch was asked for, a store that has gone back answers nobody: its
// revision would make old states pass for present ones.
func TestStoreThatHasGoneBackHasNoRevision(t *testing.T) {
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	c := replica(t, m)
	putMany(t, c, 10)
	m.Kill(t)
	backup := m.Copy(t)
	m.Start(t)
	putMany(t, c, 10)
	// Without an epoch the store does not find out by itself.
	s := watch(t, c, 1)
	for u := next(t, s); u.Through < 21; {
		u = next(t, s)
	}
	m.Kill(t)
	m.PutBack(t, backup)
	m.Start(t)
	ctx := contextFor(t)
	for {
		r, err := c.Revision(ctx)
		if err == nil {
			t.Fatalf("the revision is %d", r)
		}
		if strings.Contains(err.Error(), "gone back") {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	awaitEnd(t, s)
}

// Without the permission to keep the epoch, it is that of the cluster. That etcd
// has gone back is noticed by who sees it.
func TestEpochWithoutPermission(t *testing.T) {
	for name, grants := range map[string]func(t *testing.T, ctx context.Context, admin *clientv3.Client){
		"none": func(*testing.T, context.Context, *clientv3.Client) {},
		"to read": func(t *testing.T, ctx context.Context, admin *clientv3.Client) {
			if _, err := admin.RoleGrantPermission(ctx, "reader", store.EpochKey, "", clientv3.PermissionType(clientv3.PermRead)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			admin := etcdClient(t, m.Address)
			ctx := contextFor(t)
			steps := []func() error{
				func() error { _, err := admin.UserAdd(ctx, "root", "secret"); return err },
				func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
				func() error { _, err := admin.RoleAdd(ctx, "reader"); return err },
				func() error {
					_, err := admin.RoleGrantPermission(ctx, "reader", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
					return err
				},
				func() error { grants(t, ctx, admin); return nil },
				func() error { _, err := admin.UserAdd(ctx, "fanoutd", "secret"); return err },
				func() error { _, err := admin.UserGrantRole(ctx, "fanoutd", "reader"); return err },
				func() error { _, err := admin.AuthEnable(ctx); return err },
			}
			for _, step := range steps {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}, Username: "fanoutd", Password: "secret"},
				slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			c := s.Collection("test", prefix)
			putMany(t, c, 5)
			for range 3 {
				if epoch := epochOf(t, c); len(epoch) != 16 {
					t.Errorf("epoch %q", epoch)
				}
			}
			m.Kill(t)
			backup := m.Copy(t)
			m.Start(t)
			putMany(t, c, 5)
			m.Kill(t)
			m.PutBack(t, backup)
			m.Start(t)
			after := epochOf(t, c)
			if len(after) != 25 {
				t.Errorf("after etcd has gone back the epoch is %q", after)
			}
			if again := epochOf(t, c); again != after {
				t.Errorf("the epoch was %s and is %s", after, again)
			}
			closeStore(t, s)
			if n := strings.Count(log.String(), "cannot be kept"); n != 1 {
				t.Errorf("that is logged %d times:\n%s", n, log.String())
			}
		})
	}
}

// A full etcd is read all the same.
func TestEpochOfAFullEtcd(t *testing.T) {
	m := etcdproc.StartMember(t, "http", "--quota-backend-bytes", "4194304")
	client := etcdClient(t, m.Address)
	ctx := contextFor(t)
	for full := false; !full; {
		_, err := client.Put(ctx, "k", string(make([]byte, 1_000_000)))
		if full = errors.Is(err, rpctypes.ErrNoSpace); err != nil && !full {
			t.Fatal(err)
		}
	}
	if epoch := epochOf(t, replica(t, m)); len(epoch) != 16 {
		t.Errorf("epoch %q", epoch)
	}
}
