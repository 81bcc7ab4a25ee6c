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
	"github.com/fanoutd/fanoutd/internal/store/epochs"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// epochOf returns the epoch of a collection. It retries while etcd is unavailable.
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

// replica returns a collection with its own store, as each server has one.
func replica(t *testing.T, members ...*etcdproc.Member) *store.Collection {
	t.Helper()
	var cfg store.ExternalConfig
	for _, m := range members {
		cfg.Endpoints = append(cfg.Endpoints, m.Address)
	}
	return dialStore(t, cfg)
}

// unmonitored returns a store that does not look for a restore of etcd on its own, as if that came late.
func unmonitored(t *testing.T, m *etcdproc.Member) *store.Store {
	t.Helper()
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	s.StopMonitor()
	return s
}

func TestEpochs(t *testing.T) {
	epochs := map[object.Epoch]bool{}
	for range 2 {
		both(t, func(t *testing.T, e *etcd) {
			epoch := epochOf(t, e.collection())
			if again := epochOf(t, e.Plain("other", "/other/")); epoch != again {
				t.Errorf("two collections have the epochs %q and %q, want the same", epoch, again)
			}
			if len(epoch) != 25 {
				t.Errorf("epoch %q", epoch)
			}
			epochs[epoch] = true
		})
	}
	if len(epochs) != 4 {
		t.Errorf("four etcds have the epochs %v, want four different ones", epochs)
	}
}

// Servers that connect to a new etcd at the same time agree on its epoch.
func TestConcurrentServersAgreeOnTheEpoch(t *testing.T) {
	m := etcdproc.StartMember(t, "http")
	client := etcdClient(t, m.Address)
	for range 10 {
		if _, err := client.Delete(t.Context(), epochs.Key); err != nil {
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
				t.Fatalf("got the epochs %v, want the same for all servers", epochs)
			}
		}
	}
}

// Only the first request for the epoch writes to etcd. Each write creates a revision,
// which affects all users of the etcd.
func TestEpochIsWrittenOnce(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		epochOf(t, c)
		first := commit(t, c, put("k", "v"))
		if first > 5 {
			t.Errorf("the first write has revision %d, want at most 5", first)
		}
		for range 10 {
			epochOf(t, c)
		}
		if now, err := c.Revision(contextFor(t)); err != nil || now != first {
			t.Errorf("ten requests for the epoch created %d revisions, want none; error %v", now-first, err)
		}
	})
}

// The epoch survives restarts of members, elections, and all kinds of raft entries.
func TestEpochSurvivesRestartsOfMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
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
				// Requests may fail while there is no leader.
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

// awaitEnd waits until the stream ends because etcd has gone back.
func awaitEnd(t *testing.T, s object.Watch) {
	t.Helper()
	ctx := contextFor(t)
	for {
		_, err := s.Next(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, object.ErrUnavailable) {
			t.Fatalf("the stream ended with %v, want %v", err, object.ErrUnavailable)
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

// Every way to back up and restore etcd invalidates earlier positions.
func TestRestoredEtcdHasANewEpoch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	// Each backup returns a function that restores the state at the time of the backup.
	backups := map[string]func(t *testing.T, m *etcdproc.Member) (restore func()){
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
			restore := backup(t, m)
			putMany(t, one, 20)
			if again := epochOf(t, other); again != before {
				t.Fatalf("two servers have the epochs %s and %s, want the same", before, again)
			}
			now, err := other.Revision(contextFor(t))
			if err != nil {
				t.Fatal(err)
			}
			streams := []object.Watch{watch(t, one, now), watch(t, other, now)}

			m.Kill(t)
			restore()
			m.Start(t)

			for _, s := range streams {
				awaitEnd(t, s)
			}
			after := epochOf(t, one)
			if after == before {
				t.Error("the epoch did not change")
			}
			if again := epochOf(t, other); again != after {
				t.Errorf("two servers have the epochs %s and %s, want the same", after, again)
			}
			// Existing and new servers agree on the new epoch after a restart of etcd.
			m.Kill(t)
			m.Start(t)
			for _, c := range []*store.Collection{one, other, replica(t, m)} {
				if again := epochOf(t, c); again != after {
					t.Errorf("two servers have the epochs %s and %s, want the same", after, again)
				}
			}
		})
	}
}

// The etcd client resumes a watch after a reconnect. If etcd was restored in between,
// the stream delivers none of its changes, even if its revisions are higher than before.
func TestStreamDeliversNothingOfARestoredEtcd(t *testing.T) {
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	own := unmonitored(t, m)
	c := own.Plain("test", prefix)
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
			t.Fatalf("after revision %d: got %+v, %v, want %v", last, u, err, object.ErrUnavailable)
		}
		return
	}
}

// Reads never return the state of a restored etcd under the epoch of the old one, even
// if the restored etcd has newer revisions.
func TestReadsNeverReturnARestoredStateUnderTheOldEpoch(t *testing.T) {
	for name, read := range map[string]func(c *store.Collection, at object.Position) (object.Epoch, error){
		"position": func(c *store.Collection, _ object.Position) (object.Epoch, error) {
			p, err := c.Position(t.Context())
			return p.Epoch, err
		},
		"revision": func(c *store.Collection, at object.Position) (object.Epoch, error) {
			_, err := c.Revision(t.Context()) // the cache then answers with the state of the old epoch
			return at.Epoch, err
		},
		"list": func(c *store.Collection, at object.Position) (object.Epoch, error) {
			_, _, err := c.List(t.Context(), at.Revision, object.Scope{}, "", 10)
			return at.Epoch, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			own := unmonitored(t, m)
			c := own.Plain("test", prefix)
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
					t.Fatal("the read returned a restored state under the old epoch")
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

// A process that has never seen the old etcd recognizes a restored snapshot. This holds
// for a snapshot made immediately after the record, for a restore of a restored etcd, and
// if the raft log has grown again, with writes and with entries without revisions.
func TestNewProcessRecognizesARestoredSnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	client := etcdClient(t, m.Address)
	visit := func() object.Epoch {
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, s)
		return epochOf(t, s.Plain("test", prefix))
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
		t.Errorf("got the epochs %v, want four", epochs)
	}
}

// write creates n revisions with an etcd client.
func write(t *testing.T, client *clientv3.Client, n int) {
	t.Helper()
	ctx := contextFor(t)
	for range n {
		if _, err := client.Put(ctx, prefix+"k", "v"); err != nil {
			t.Fatal(err)
		}
	}
}

// After etcd has gone back, reads of the revision fail until the epoch is requested.
// Otherwise a caller would mistake an old state for the present one.
func TestRevisionFailsAfterEtcdHasGoneBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	c := replica(t, m)
	putMany(t, c, 10)
	m.Kill(t)
	backup := m.Copy(t)
	m.Start(t)
	putMany(t, c, 10)
	// The monitor inspects only a known epoch, so it does not detect the rollback.
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
			t.Fatalf("got revision %d of an etcd that has gone back, want an error", r)
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

// Without the permission to store the epoch, the cluster id is the epoch. A running
// server still detects that etcd has gone back.
func TestEpochWithoutPermission(t *testing.T) {
	for name, grants := range map[string]func(t *testing.T, ctx context.Context, admin *clientv3.Client){
		"none": func(*testing.T, context.Context, *clientv3.Client) {},
		"to read": func(t *testing.T, ctx context.Context, admin *clientv3.Client) {
			if _, err := admin.RoleGrantPermission(ctx, "reader", epochs.Key, "", clientv3.PermissionType(clientv3.PermRead)); err != nil {
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
			c := s.Plain("test", prefix)
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
				t.Errorf("after etcd has gone back the epoch is %q, want one with a random id", after)
			}
			if again := epochOf(t, c); again != after {
				t.Errorf("the epoch was %s and is %s", after, again)
			}
			closeStore(t, s)
			if n := strings.Count(log.String(), "the epoch cannot be stored"); n != 1 {
				t.Errorf("the missing permission is logged %d times, want once:\n%s", n, log.String())
			}
		})
	}
}

// Reads work although a full etcd cannot store the epoch.
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
