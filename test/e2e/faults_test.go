package e2e

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// fault is something that goes wrong, and is right again when do returns.
type fault struct {
	name string
	do   func()
}

// faults are those of a world with an etcd of its own.
func (w *world) faults(t *testing.T, etcd *cluster) []fault {
	t.Helper()
	restart := func(signal os.Signal) func() {
		return func() {
			w.disturb(t, func() {
				w.server.end(t, signal)
				w.restarting(t)
				w.server.start(t)
			})
		}
	}
	stop, crash := restart(syscall.SIGTERM), restart(syscall.SIGKILL)
	return []fault{
		{"fanoutd is stopped", stop},
		{"fanoutd is killed", crash},
		{"fanoutd is stopped, and etcd compacted", func() {
			w.compact(t)
			stop()
		}},
		{"etcd is killed", func() {
			w.disturb(t, func() {
				kill(t, etcd.members)
				launch(t, etcd.members)
			})
		}},
		{"etcd is compacted", func() { w.compact(t) }},
		{"etcd is out of reach", func() {
			w.disturb(t, func() {
				etcd.near.cut()
				w.changes(t, 20) // by those who write to etcd directly
				etcd.near.heal()
			})
		}},
		{"etcd does not answer", func() {
			w.disturb(t, func() {
				etcd.near.freeze()
				w.changes(t, 20)
				etcd.near.heal()
			})
		}},
		{"connections break", func() {
			w.disturb(t, func() {
				w.entrance.drop()
				w.changes(t, 50)
				w.entrance.drop()
			})
		}},
	}
}

// overtaken is the fault that etcd forgets what fanoutd has not seen yet.
func (w *world) overtaken(t *testing.T, etcd *cluster) fault {
	t.Helper()
	return fault{"etcd is out of reach, and compacted", func() {
		w.disturb(t, func() {
			etcd.near.cut()
			w.changes(t, 150)
			w.compact(t)
			w.changes(t, 50)
			etcd.near.heal()
		})
	}}
}

// leaderless is the fault that the leader of etcd is lost, and comes back when the
// others have long had another one.
func (w *world) leaderless(t *testing.T, etcd *cluster) fault {
	t.Helper()
	return fault{"the leader of etcd is killed", func() {
		w.disturb(t, func() {
			lost := []*etcdproc.Member{etcd.leader(t)}
			kill(t, lost)
			w.changes(t, 50)
			launch(t, lost)
		})
	}}
}

// suffer lets all faults happen in some order, with about so many changes in
// between.
func (w *world) suffer(t *testing.T, rng *rand.Rand, faults []fault, between int) {
	t.Helper()
	for _, i := range rng.Perm(len(faults)) {
		w.changes(t, between/2+rng.IntN(between))
		changes, from := w.ledger.len(), time.Now()
		faults[i].do()
		t.Logf("after %d changes: %s, for %v", changes, faults[i].name, time.Since(from).Round(time.Millisecond))
	}
	w.changes(t, between)
}
