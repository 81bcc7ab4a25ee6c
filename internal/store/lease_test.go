package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// mortal returns a put with a time to live.
func mortal(key, value string) object.Op {
	op := put(key, value)
	op.TTL = time.Hour
	return op
}

// keepTTL returns a put that keeps the time to live.
func keepTTL(key, value string) object.Op {
	op := put(key, value)
	op.KeepTTL = true
	return op
}

// leases returns the leases of etcd.
func leases(t testing.TB, client *clientv3.Client) []clientv3.LeaseID {
	t.Helper()
	resp, err := client.Leases(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	var ids []clientv3.LeaseID
	for _, l := range resp.Leases {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return ids
}

// awaitLeases waits until etcd has exactly these leases. It does not wait long enough for the
// first sweep.
func awaitLeases(t testing.TB, client *clientv3.Client, want ...clientv3.LeaseID) {
	t.Helper()
	slices.Sort(want)
	var got []clientv3.LeaseID
	if !poll.Wait(contextFor(t), func() bool {
		got = leases(t, client)
		return slices.Equal(got, want)
	}) {
		t.Errorf("got %d leases, want %d: got %x, want %x", len(got), len(want), got, want)
	}
}

// leaseOf returns the lease of a key.
func leaseOf(t testing.TB, client *clientv3.Client, key string) clientv3.LeaseID {
	t.Helper()
	resp, err := client.Get(contextFor(t), prefix+key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("get %s: got %v, %v", key, resp, err)
	}
	return clientv3.LeaseID(resp.Kvs[0].Lease)
}

// writeMortals writes n objects with a time to live to 16 keys, from 16 goroutines, and
// calls after after each write.
func writeMortals(t testing.TB, c *store.Collection, n int, after func()) {
	t.Helper()
	ctx := contextFor(t)
	var writing sync.WaitGroup
	for w := range 16 {
		writing.Go(func() {
			for i := range n / 16 {
				if _, err := c.Commit(ctx, []object.Op{mortal(fmt.Sprintf("k%d", (w+i)%16), "v")}); err != nil {
					t.Error(err)
					return
				}
				after()
			}
		})
	}
	writing.Wait()
}

// Each put with a time to live has a lease of its own. The leases of replaced versions are
// revoked.
func TestReplacedLeasesAreRevoked(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	both(t, func(t *testing.T, e *etcd) {
		writeMortals(t, e.collection(), 640, func() {})
		var want []clientv3.LeaseID
		for i := range 16 {
			want = append(want, leaseOf(t, e.client, fmt.Sprintf("k%d", i)))
		}
		awaitLeases(t, e.client, want...)
	})
}

// The lease of a replaced object is revoked if the server knows the lease, and kept with KeepTTL.
func TestKnownLeasesAreRevoked(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		done, err := c.Commit(contextFor(t), []object.Op{mortal("k", "1")})
		if err != nil {
			t.Fatal(err)
		}
		lease := leaseOf(t, e.client, "k")
		if done.Leases[0] != int64(lease) {
			t.Errorf("got lease %x of the commit, want %x", done.Leases[0], lease)
		}
		keeping := keepTTL("k", "2")
		keeping.Seen = &object.Seen{ModRevision: done.Revision, Lease: int64(lease)}
		at := commit(t, c, keeping)
		if got := leaseOf(t, e.client, "k"); got != lease {
			t.Errorf("got lease %x, want %x", got, lease)
		}
		immortal := put("k", "3")
		immortal.Seen = &object.Seen{ModRevision: at, Lease: int64(lease)}
		commit(t, c, immortal)
		awaitLeases(t, e.client)
	})
}

// Writers that are faster than the revocations wait for them.
func TestLeasesAreBoundedWhileTheQueueIsFull(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		e.DisableLeaseQueue()
		const keys, writers = 16, 16
		writeMortals(t, e.collection(), 320, func() {
			all, err := e.client.Leases(t.Context())
			if err != nil {
				t.Error(err)
			} else if n := len(all.Leases); n > keys+writers {
				t.Errorf("got %d leases for %d keys and %d writers", n, keys, writers)
			}
		})
	})
}

func TestLeasesEndWithTheirKeys(t *testing.T) {
	returned := remove("k")
	returned.ReturnDeleted = true
	many := []object.Op{put("k", "v")}
	for i := range 127 {
		many = append(many, put(fmt.Sprintf("other%d", i), "v"))
	}
	for name, ops := range map[string][]object.Op{
		"put without a time to live": {put("k", "v")},
		"delete":                     {remove("k")},
		"delete that returns it":     {returned},
		"transaction":                {check("checked"), put("k", "v"), remove("other")},
		"largest transaction":        many,
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, e *etcd) {
				c := e.collection()
				commit(t, c, mortal("k", "v"))
				if n := len(leases(t, e.client)); n != 1 {
					t.Fatalf("got %d leases, want 1", n)
				}
				commit(t, c, ops...)
				awaitLeases(t, e.client)
			})
		})
	}
}

func TestKeepTTLKeepsTheLease(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		at := commit(t, c, mortal("k", "v"))
		lease := leaseOf(t, e.client, "k")
		at = commit(t, c, when(at, keepTTL("k", "v")))
		commit(t, c, keepTTL("k", "v"))
		many := []object.Op{keepTTL("k", "v")}
		for i := range 126 {
			many = append(many, put(fmt.Sprintf("other%d", i), "v"))
		}
		commit(t, c, many...)
		if now := leaseOf(t, e.client, "k"); now != lease {
			t.Errorf("got lease %x of version %d, want %x", now, at, lease)
		}
		// A later revocation proves that this lease was not to be revoked.
		commit(t, c, mortal("other", "v"))
		commit(t, c, remove("other"))
		awaitLeases(t, e.client, lease)
	})
}

// largestKeepTTL returns a transaction of 128 operations, which has no room for anything else. Some
// of them keep the time to live.
func largestKeepTTL(others ...object.Op) []object.Op {
	ops := append([]object.Op{keepTTL("kept", "2"), keepTTL("immortal", "2"), keepTTL("new", "2")}, others...)
	for i := len(ops); i < 128; i++ {
		ops = append(ops, put(fmt.Sprintf("other%d", i), "v"))
	}
	return ops
}

func TestKeepTTLInTheLargestTransaction(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		at := commit(t, c, mortal("kept", "1"), put("immortal", "1"), put("checked", "1"))
		lease := leaseOf(t, e.client, "kept")
		commit(t, c, largestKeepTTL(when(at, check("checked")))...)
		for key, want := range map[string]clientv3.LeaseID{"kept": lease, "immortal": clientv3.NoLease, "new": clientv3.NoLease} {
			if now := leaseOf(t, e.client, key); now != want {
				t.Errorf("%s: got lease %x, want %x", key, now, want)
			}
		}
		_, err := c.Commit(contextFor(t), largestKeepTTL(when(at+1, check("checked"))))
		if conflict, ok := errors.AsType[*object.ConflictError](err); !ok || conflict.Key != "checked" {
			t.Errorf("got %v, want a conflict", err)
		}
	})
}

// Others may replace or remove a lease while a transaction that keeps it is on its way.
func TestKeepTTLWhileOthersReplaceTheLease(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		var writing sync.WaitGroup
		writing.Go(func() {
			for i := range 60 {
				op := mortal("kept", "1")
				if i%3 == 1 {
					op = remove("kept")
				}
				if _, err := c.Commit(contextFor(t), []object.Op{op}); err != nil {
					t.Error(err)
				}
			}
		})
		for range 20 {
			if _, err := c.Commit(contextFor(t), largestKeepTTL()); err != nil {
				t.Error(err)
			}
		}
		writing.Wait()
		lease := leaseOf(t, e.client, "kept")
		commit(t, c, largestKeepTTL()...)
		if now := leaseOf(t, e.client, "kept"); now != lease || lease == clientv3.NoLease {
			t.Errorf("got lease %x, want %x", now, lease)
		}
		awaitLeases(t, e.client, lease)
	})
}

// A write with a failed precondition revokes its unused lease.
func TestFailedCommitLeavesNoLease(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		if _, err := e.collection().Commit(contextFor(t), []object.Op{when(5, mortal("k", "v"))}); err == nil {
			t.Fatal("the commit succeeded, want a conflict")
		}
		awaitLeases(t, e.client)
	})
}

// Another program may write below the prefix with leases of its own, and attach its keys to
// the leases of fanoutd.
func TestLeasesOfOtherProgramsAreNotRevoked(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		ctx := contextFor(t)
		theirs, err := e.client.Grant(ctx, 3600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.client.Put(ctx, prefix+"theirs", "v", clientv3.WithLease(theirs.ID)); err != nil {
			t.Fatal(err)
		}
		commit(t, c, mortal("shared", "v"), mortal("ours", "v"))
		shared := leaseOf(t, e.client, "shared")
		if _, err := e.client.Put(ctx, "/elsewhere", "v", clientv3.WithLease(shared)); err != nil {
			t.Fatal(err)
		}
		commit(t, c, put("theirs", "v"), put("shared", "v"), remove("ours"))
		awaitLeases(t, e.client, theirs.ID, shared)
		if err := e.SweepLeases(ctx); err != nil {
			t.Fatal(err)
		}
		if got := leases(t, e.client); len(got) != 2 {
			t.Errorf("got leases %x after a sweep, want %x and %x", got, theirs.ID, shared)
		}
		if got, err := e.client.Get(ctx, "/elsewhere"); err != nil || len(got.Kvs) != 1 {
			t.Errorf("got %v, %v, want the key of the other program", got, err)
		}
	})
}

// orphanLease grants a lease as a killed process leaves it behind.
func orphanLease(t testing.TB, client *clientv3.Client) clientv3.LeaseID {
	t.Helper()
	id := store.NewLeaseID()
	if _, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(contextFor(t), &pb.LeaseGrantRequest{ID: int64(id), TTL: 3600}); err != nil {
		t.Fatal(err)
	}
	return id
}

// A sweep revokes the leases that have no key, whoever granted them or took the key away.
func TestSweepRevokesUnusedLeases(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		commit(t, c, mortal("kept", "v"))
		commit(t, c, mortal("deleted by another program", "v"))
		if _, err := e.client.Delete(contextFor(t), prefix+"deleted by another program"); err != nil {
			t.Fatal(err)
		}
		orphanLease(t, e.client)
		theirs, err := e.client.Grant(contextFor(t), 3600)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(leases(t, e.client)); n != 4 {
			t.Fatalf("got %d leases, want 4", n)
		}
		if err := e.SweepLeases(contextFor(t)); err != nil {
			t.Fatal(err)
		}
		awaitLeases(t, e.client, theirs.ID, leaseOf(t, e.client, "kept"))
	})
}

// Processes that write objects with a time to live are killed again and again. A sweep
// leaves one lease for each object.
func TestSweepAfterKilledProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := etcdproc.Start(t, "http")
	client := etcdClient(t, address)
	for range 5 {
		writer := startWriter(t, address)
		writes := client.Watch(contextFor(t), prefix, clientv3.WithPrefix())
		for n := 0; n < 100; {
			resp := <-writes
			if err := resp.Err(); err != nil {
				t.Fatal(err)
			}
			n += len(resp.Events)
		}
		writer.kill()
	}
	t.Logf("the processes left %d leases", len(leases(t, client)))
	orphanLease(t, client) // in case that every process was killed at a good moment

	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{address}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	var want []clientv3.LeaseID
	for _, r := range list(t, s.Plain("test", prefix), revisionOf(t, client), 100) {
		want = append(want, clientv3.LeaseID(r.Lease))
	}
	if len(want) != 16 {
		t.Fatalf("got %d objects, want 16", len(want))
	}
	slices.Sort(want)
	poll.Until(t, "there is one lease for each object", func() bool {
		if err := s.SweepLeases(contextFor(t)); err != nil {
			t.Fatal(err)
		}
		return slices.Equal(leases(t, client), want)
	})
}

func revisionOf(t testing.TB, client *clientv3.Client) object.Revision {
	t.Helper()
	resp, err := client.Get(contextFor(t), "x", clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return object.Revision(resp.Header.GetRevision())
}

// writeUntilKilled is the program of the processes of [TestSweepAfterKilledProcesses].
func writeUntilKilled(address string) {
	ctx := context.Background()
	s, err := store.Dial(ctx, store.ExternalConfig{Endpoints: []string{address}}, quiet())
	if err != nil {
		panic(err)
	}
	c := s.Plain("test", prefix)
	for w := range 16 {
		go func() {
			for i := w; ; i++ {
				if _, err := c.Commit(ctx, []object.Op{mortal(fmt.Sprintf("k%d", i%16), "v")}); err != nil {
					panic(err)
				}
			}
		}()
	}
	select {}
}
