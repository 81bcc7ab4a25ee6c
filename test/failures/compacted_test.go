package failures

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestEtcdWatchCompactedAway compacts the server's etcd watch away: watchers receive the
// differences as events, and no stream ends.
func TestEtcdWatchCompactedAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := etcdproc.Start(t, "http")
	client := dialEtcd(t, address)
	way := loopback.NewLink(t, address)
	f := startFanoutd(t, over(way.Address)...)
	client.put(t, "z", "goes")
	known := client.putMany(t, "before", 50)
	s := newSubscriber("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	way.Cut()
	client.putMany(t, "before", 10)
	client.putMany(t, "meanwhile", 30)
	client.put(t, "passing", "comes and goes")
	client.remove(t, "passing")
	last := client.remove(t, "z")
	client.read(t)
	if _, err := client.Compact(t.Context(), int64(last), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	way.Heal()
	s.reach(t, last)
	s.reach(t, client.putMany(t, "after", 10))

	s.caughtUp(t, object.Reset)
	truth := client.truth(t)
	truth.Gaps = []check.Gap{{After: known, Until: last}}
	s.validate(t, truth)
}
