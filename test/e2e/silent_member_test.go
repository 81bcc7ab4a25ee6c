package e2e

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// TestOneFrozenLinkLosesNothing freezes the links of a server to the three members of its etcd,
// one after another. Each time, etcd is compacted as soon as watchers have the changes. They get
// every change, because the server continues its watch at another member long before gRPC closes
// the frozen connection.
func TestOneFrozenLinkLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	c := startCluster(t, 3)
	s := startServer(t, c.near.endpoints()...)
	history := newEtcdHistory(t, c.client)
	last := put(t, s.conn, "first", []byte("1"))
	r := newRecorderOf(t, s.conn, watchOptions{everyEvent: true})
	r.open(t, check.FromNothing)
	r.until(t, object.Synced)

	for i, l := range c.near {
		l.freeze()
		frozen := time.Now()
		for _, op := range []clientv3.Op{
			clientv3.OpPut(etcdPrefix+"k", "1"),
			clientv3.OpPut(etcdPrefix+"k", "2"),
			clientv3.OpDelete(etcdPrefix + "k"),
			clientv3.OpPut(etcdPrefix+"k", "3"),
			clientv3.OpPut(etcdPrefix+"passing", "1"),
			clientv3.OpDelete(etcdPrefix + "passing"),
		} {
			done, err := c.client.Do(t.Context(), op)
			if err != nil {
				t.Fatal(err)
			}
			last = revisionOf(done)
		}
		r.reach(t, last)
		// gRPC closes a frozen connection after 15 s.
		if took := time.Since(frozen); took > 12*time.Second {
			t.Errorf("the changes arrived %v after link %d was frozen", took, i)
		}
		if err := history.wait(t.Context(), object.Revision(last)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.Compact(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		l.heal()
	}

	if log := s.output(t); strings.Contains(log, "listing again") {
		t.Error("the server has listed the resource again")
	}
	truth, err := history.truth(t.Context(), object.Revision(last))
	if err != nil {
		t.Fatal(err)
	}
	r.validate(t, truth)
}

// revisionOf returns the revision of a put or a deletion.
func revisionOf(done clientv3.OpResponse) int64 {
	if p := done.Put(); p != nil {
		return p.Header.GetRevision()
	}
	return done.Del().Header.GetRevision()
}
