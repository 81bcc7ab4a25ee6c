package failures

import (
	"os"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// TestFanoutdKilled kills a server: clients resume at the other server, or at the restarted
// one, at their position and without a snapshot.
func TestFanoutdKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := etcdproc.Start(t, "http")
	client := dialEtcd(t, address)
	here, elsewhere := startFanoutd(t, over(address)...), startFanoutd(t, over(address)...)
	s := newSubscribers("subscriber")
	s.subscribe(t, here.reads)
	s.until(t, object.Synced)
	s.reach(t, client.putMany(t, "before", 100))

	here.end(t, os.Kill)
	for _, s := range s {
		if _, err := s.receive(t); err == nil {
			t.Fatalf("%s: the stream of a killed server continues", s.history.Watcher)
		}
	}
	client.putMany(t, "meanwhile", 100)
	s.subscribe(t, elsewhere.reads)
	s.until(t, object.Synced)
	s.reach(t, client.putMany(t, "elsewhere", 10))

	client.putMany(t, "meanwhile", 50)
	here.start(t)
	s.subscribe(t, here.reads)
	s.until(t, object.Synced)
	s.reach(t, client.putMany(t, "here", 10))

	s.caughtUp(t, object.Reset, object.Replay, object.Replay)
	s.validate(t, client.truth(t))
}
