package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/grpcproxy"
)

// A transaction grants one lease for each different time to live, and waits for several at the
// same time. So a slow etcd delays it by a few requests, not by one for each put.
func TestTransactionGrantsFewLeases(t *testing.T) {
	const together = 16 // grants that must be on their way at the same time
	var arrived atomic.Int64
	all := make(chan struct{}) // closed when so many have arrived
	address := etcdproc.Start(t, "http")
	proxy := grpcproxy.Start(t, grpcproxy.Config{Target: address, Admit: func(ctx context.Context, method string) error {
		if method != "LeaseGrant" {
			return nil
		}
		if arrived.Add(1) == together {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
		return nil
	}})
	c := dialStore(t, store.ExternalConfig{Endpoints: []string{proxy.Address}})
	client := etcdClient(t, address)
	ops := make([]object.Op, together)
	for i := range ops {
		ops[i] = mortal(fmt.Sprintf("distinct%d", i), "v")
		ops[i].TTL += time.Duration(i) * time.Second
	}
	commit(t, c, ops...)
	if n := len(leases(t, client)); n != together {
		t.Errorf("got %d leases for %d times to live", n, together)
	}
	ops = nil
	for i := range 128 {
		ops = append(ops, mortal(fmt.Sprintf("equal%d", i), "v"))
	}
	before := proxy.Requests("LeaseGrant")
	commit(t, c, ops...)
	if n := proxy.Requests("LeaseGrant") - before; n != 1 {
		t.Errorf("got %d leases granted for equal times to live, want 1", n)
	}
}

// The lease of several keys is revoked with its last key.
func TestLeaseOfSeveralKeysEndsWithTheLast(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		commit(t, c, mortal("a", "v"), mortal("b", "v"), mortal("c", "v"))
		shared := leaseOf(t, e.client, "a")
		for _, key := range []string{"b", "c"} {
			if got := leaseOf(t, e.client, key); got != shared {
				t.Errorf("lease of %s: got %x, want %x", key, got, shared)
			}
		}
		commit(t, c, put("a", "v"), mortal("other", "v"))
		commit(t, c, keepTTL("b", "kept"), remove("c"))
		awaitLeases(t, e.client, shared, leaseOf(t, e.client, "other"))
		if err := e.SweepLeases(contextFor(t)); err != nil {
			t.Fatal(err)
		}
		if got := leaseOf(t, e.client, "b"); got != shared {
			t.Errorf("lease of b: got %x, want %x", got, shared)
		}
		commit(t, c, remove("b"), remove("other"))
		awaitLeases(t, e.client)
		if got := leaseOf(t, e.client, "a"); got != clientv3.NoLease {
			t.Errorf("lease of a: got %x, want none", got)
		}
	})
}
