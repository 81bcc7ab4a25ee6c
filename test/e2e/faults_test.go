package e2e

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// fault is something that fails, and works again when do returns.
type fault struct {
	name string
	do   func()
}

// faults are the faults of a scenario with an external etcd.
func (w *scenario) faults(t *testing.T, etcd *cluster) []fault {
	t.Helper()
	restart := func(signal os.Signal) func() {
		return func() {
			w.disturb(t, func() { w.restart(t, signal) })
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
				w.changes(t, 20) // by the etcd writers
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

// compactAhead is a compaction of revisions that fanoutd has not seen yet.
func (w *scenario) compactAhead(t *testing.T, etcd *cluster) fault {
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

// leaderLoss is a loss of etcd's leader. The member comes back long after the others have
// elected a new leader.
func (w *scenario) leaderLoss(t *testing.T, etcd *cluster) fault {
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

// oneFrozenLink freezes the link to one member of etcd until the server has recovered, and
// compacts etcd meanwhile.
func (w *scenario) oneFrozenLink(t *testing.T, rng *rand.Rand, etcd *cluster) fault {
	t.Helper()
	return fault{"one member of etcd does not answer", func() {
		w.disturb(t, func() {
			l := pick(rng, etcd.near)
			l.freeze()
			defer l.heal()
			w.changes(t, 20)
			if err := w.recovered(); err != nil {
				t.Error(err)
			}
			w.compact(t)
			w.changes(t, 20)
		})
	}}
}

// inject injects all faults in random order, with about this many changes between two
// faults.
func (w *scenario) inject(t *testing.T, rng *rand.Rand, faults []fault, between int) {
	t.Helper()
	for _, i := range rng.Perm(len(faults)) {
		w.changes(t, between/2+rng.IntN(between))
		changes, from := w.ledger.len(), time.Now()
		faults[i].do()
		t.Logf("after %d changes: %s, for %v", changes, faults[i].name, time.Since(from).Round(time.Millisecond))
	}
	w.changes(t, between)
}
