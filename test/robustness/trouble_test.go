package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/model"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// trouble ends and starts processes while clients are at work.
type trouble struct {
	base    time.Time
	rng     *rand.Rand
	cluster *cluster
	ledger  *ledger

	history   *model.AppendableHistory // of what it asks of etcd itself
	compacted int64                    // the revision of the last compaction
	made      map[string]int           // how often it did what
}

// run makes trouble until enough is done. Then everything is running.
func (m *trouble) run(ctx, enough context.Context) error {
	for {
		// Between two blows there is work.
		if err := m.ledger.pass(enough, 100+m.rng.IntN(500)); err != nil {
			return nil
		}
		name, strike := m.next()
		if err := strike(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.made[name]++
	}
}

// next chooses at random.
func (m *trouble) next() (string, func(context.Context) error) {
	replicas, members := m.cluster.replicas, m.cluster.members
	one, member := replicas[m.rng.IntN(len(replicas))], members[m.rng.IntN(len(members))]
	switch n := m.rng.IntN(100); {
	case n < 25:
		return "fanoutd killed", blow(syscall.SIGKILL, one)
	case n < 45:
		return "fanoutd stopped", blow(syscall.SIGTERM, one)
	case n < 55:
		return "all fanoutd killed", blow(syscall.SIGKILL, replicas...)
	case n < 70:
		return "etcd member killed", blow(syscall.SIGKILL, member)
	case n < 80:
		return "all etcd killed", blow(syscall.SIGKILL, members...)
	case n < 85:
		// Rarely: while it has clients etcd takes seven seconds to stop.
		return "etcd member stopped", blow(syscall.SIGTERM, member)
	default:
		return "etcd compacted", m.compact
	}
}

func blow[S server](signal syscall.Signal, servers ...S) func(context.Context) error {
	return func(ctx context.Context) error { return restart(ctx, signal, servers...) }
}

// compact makes etcd forget what all servers have seen. A compaction that
// overtakes a server is another matter: it then tells its watchers the difference
// at a later revision, which etcd itself never does.
func (m *trouble) compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
