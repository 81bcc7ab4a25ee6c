package e2e

import (
	"os"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Fifty watchers see exactly what etcd says has happened while 10,000 changes are
// made as fast as the writers can and the server is stopped and started, and killed
// and started.
func TestTenThousandChanges(t *testing.T) {
	t.Run("embedded etcd", func(t *testing.T) {
		etcd := loopback.FreeAddress(t)
		tenThousandChanges(t, startServer(t, append(configured(t, resourceConfig), embedded(t, etcd)...)...), etcd)
	})
	t.Run("external etcd", func(t *testing.T) {
		etcd := etcdproc.StartMember(t, "http")
		tenThousandChanges(t, startServer(t, append(configured(t, resourceConfig), "--etcd-endpoints", "http://"+etcd.Address)...), etcd.Address)
	})
}

func tenThousandChanges(t *testing.T, s *server, etcd string) {
	const changes = 10_000
	with := promised
	with.Backlog = 0 // nobody keeps up with writers that do not wait
	w := newWorld(t, s, dialEtcd(t, etcd), with, seed.New(t))
	w.populate(t, 50, changes) // each second, if that were possible
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		w.changes(t, changes/3)
		w.disturb(t, func() {
			since := w.ledger.newest()
			w.server.end(t, signal)
			w.server.start(t)
			w.forget(check.Forgotten{Since: since, Below: since - smallWindow})
		})
	}
	w.changes(t, changes/3+1)
	w.judge(t, "replays", "resets", "live", "reads")
}
