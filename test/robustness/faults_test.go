package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/model"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// faultInjector stops and starts processes while clients make calls.
type faultInjector struct {
	base    time.Time
	rng     *rand.Rand
	cluster *cluster
	ledger  *ledger

	history   *model.AppendableHistory // of its own requests to etcd
	compacted int64                    // the revision of the last compaction
	made      map[string]int           // number of faults, by name
}

// run injects faults until enough is done. When it returns, everything is running.
func (m *faultInjector) run(ctx, enough context.Context) error {
	for {
		// Let the clients work between two faults.
		if err := m.ledger.pass(enough, 100+m.rng.IntN(500)); err != nil {
			return nil
		}
		name, inject := m.next()
		if err := inject(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.made[name]++
	}
}

// next chooses a random fault.
func (m *faultInjector) next() (string, func(context.Context) error) {
	replicas, members := m.cluster.replicas, m.cluster.members
	one := replicas[m.rng.IntN(len(replicas))]
	if len(members) == 0 {
		switch n := m.rng.IntN(100); {
		case n < 45:
			return "fanoutd killed", restarting(syscall.SIGKILL, one)
		case n < 65:
			return "fanoutd stopped", restarting(syscall.SIGTERM, one)
		case n < 80:
			return "all fanoutd killed", restarting(syscall.SIGKILL, replicas...)
		default:
			return "etcd compacted", m.compact
		}
	}
	member := members[m.rng.IntN(len(members))]
	switch n := m.rng.IntN(100); {
	case n < 25:
		return "fanoutd killed", restarting(syscall.SIGKILL, one)
	case n < 45:
		return "fanoutd stopped", restarting(syscall.SIGTERM, one)
	case n < 55:
		return "all fanoutd killed", restarting(syscall.SIGKILL, replicas...)
	case n < 70:
		return "etcd member killed", restarting(syscall.SIGKILL, member)
	case n < 80:
		return "all etcd killed", restarting(syscall.SIGKILL, members...)
	case n < 85:
		// Rarely: etcd takes seven seconds to stop while it has clients.
		return "etcd member stopped", restarting(syscall.SIGTERM, member)
	default:
		return "etcd compacted", m.compact
	}
}

func restarting[S server](signal syscall.Signal, servers ...S) func(context.Context) error {
	return func(ctx context.Context) error { return restart(ctx, signal, servers...) }
}

// compact compacts etcd up to the revision that all servers have seen. A compaction
// beyond that is a different test: the server would then send its watchers a difference
// at a later revision, which etcd never does.
func (m *faultInjector) compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	oldest := int64(0)
	for _, r := range m.cluster.replicas {
		resp, err := r.fanout.List(ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1})
		if unknown(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if at := resp.GetPosition().GetRevision(); oldest == 0 || at < oldest {
			oldest = at
		}
	}
	revision := oldest - int64(m.rng.IntN(200))
	if revision <= m.compacted {
		return nil
	}
	start := time.Since(m.base)
	resp, err := m.cluster.client.Compact(ctx, revision)
	m.history.AppendCompact(revision, start, time.Since(m.base), resp, err)
	m.compacted = revision
	return nil
}
