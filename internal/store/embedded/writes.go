package embedded

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/leader"
)

// followLeader makes the clients of a member of several send writes to the leader's member, and repeat
// reads that a change of the leader has ended.
func (m *Member) followLeader(ctx context.Context, p *Peers) (err error) {
	m.leader, err = leader.New(ctx, leader.Config{
		Raft: m.etcd.Server, KV: m.KV, Leases: m.Leases, ClientURLs: m.clientURLs, TLS: p.TLS.info(),
	}, m.log)
	if err != nil {
		return fmt.Errorf("follow the leader: %w", err)
	}
	m.KV, m.Leases = m.leader, m.leader
	m.Client.KV = clientv3.NewKVFromKVClient(m.leader, m.Client)
	m.Client.Lease = clientv3.NewLeaseFromLeaseClient(m.leader, m.Client, time.Second)
	return nil
}

// clientURLs returns the client URLs of a member, or none if this member does not know it.
func (m *Member) clientURLs(id types.ID) []string {
	if member := m.etcd.Server.Cluster().Member(id); member != nil {
		return member.ClientURLs
	}
	return nil
}

// leads reports whether this member is the leader.
func (m *Member) leads() bool { return m.etcd.Server.Leader() == m.etcd.Server.MemberID() }

// handOverTimeout limits the wait for another leader. Raft itself gives a transfer up after an election timeout,
// which is a second.
const handOverTimeout = 2 * time.Second

// HandOver makes another member the leader if this one is. Writes then need no election when this one stops. If
// the others are stopping, too, it gives up after handOverTimeout.
func (m *Member) HandOver() {
	if !m.several || !m.leads() || m.stopped() {
		return
	}
	done := make(chan error, 1)
	go func() { done <- m.etcd.Server.TryTransferLeadershipOnShutdown() }() // ends with etcd at the latest
	select {
	case err := <-done:
		if err != nil {
			m.log.Warn("could not hand the leadership of the cluster over", "error", err)
		}
	case <-time.After(handOverTimeout):
		m.log.Warn("could not hand the leadership of the cluster over: no other member takes it")
	}
}

// awaitReadable waits until this member has applied everything that was acknowledged before the call.
func (m *Member) awaitReadable(ctx context.Context) error {
	if err := m.leader.Read(ctx, m.etcd.Server.LinearizableReadNotify); err != nil {
		return err
	}
	for _, alarm := range m.etcd.Server.Alarms() {
		if alarm.GetAlarm() == pb.AlarmType_CORRUPT {
			return object.ErrCorrupt // etcd itself only refuses writes then
		}
	}
	return nil
}

// Writes returns the counts of writes since the start that did not simply succeed. They are zero if this
// member has no others.
func (m *Member) Writes() object.WriteCounts {
	if m.leader == nil {
		return object.WriteCounts{}
	}
	s := m.leader.Stats()
	return object.WriteCounts{SentAgain: int64(s.SentAgain), NotApplied: int64(s.NotApplied), Unknown: int64(s.Unknown)}
}
