package e2e

import (
	"os"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/race"
	"github.com/fanoutd/fanoutd/test/seed"
)

// TestTenThousandChanges checks that fifty watchers see exactly etcd's history while
// writers make 10,000 changes as fast as they can, and the server is stopped, killed and
// started again.
func TestTenThousandChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	changes := 10_000
	if race.Enabled {
		changes = 3000
	}
	t.Run("embedded etcd", func(t *testing.T) {
		etcd := loopback.FreeAddress(t)
		tenThousandChanges(t, startServer(t, append(configured(t, resourceConfig), embedded(t, etcd)...)...), etcd, changes)
	})
	t.Run("external etcd", func(t *testing.T) {
		etcd := etcdproc.StartMember(t, "http")
		tenThousandChanges(t, startServer(t, append(configured(t, resourceConfig), "--etcd-endpoints", "http://"+etcd.Address)...), etcd.Address, changes)
	})
}

func tenThousandChanges(t *testing.T, s *server, etcd string, changes int) {
	with := promised
	with.Backlog = 0 // watchers may lag: the writers do not pause
	w := newScenario(t, s, dialEtcd(t, etcd), with, seed.New(t))
	w.populate(t, 50, changes) // per second: more than any machine can do
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		w.changes(t, changes/3)
		w.disturb(t, func() { w.restart(t, signal) })
	}
	w.changes(t, changes/3+1)
	w.validate(t, "replays", "resets", "live", "reads")
}
