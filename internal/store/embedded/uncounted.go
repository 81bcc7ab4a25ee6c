package embedded

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// uncountedInterval is the time between two looks for a snapshot that etcd has not counted.
const uncountedInterval = time.Second

// countSnapshots adds an entry when this member has got a snapshot of the leader and no entry after it, until ctx is
// done. etcd counts the entries of a snapshot as applied only with the next entry. Until then it takes the member for late, and
// if they are more than 5,000 (maxGapBetweenApplyAndCommitIndex in etcd's v3_server.go), it refuses all proposals of the member: also the one with which a
// member publishes its name, which etcd then repeats without a pause. In a cluster that nobody writes to, this would not end.
func (m *Member) countSnapshots(ctx context.Context) {
	ticker := time.NewTicker(uncountedInterval)
	defer ticker.Stop()
	for before := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		applied := m.etcd.Server.AppliedIndex()
		if applied == before && applied < m.etcd.Server.CommittedIndex() {
			if err := m.addEntry(ctx); err != nil {
				m.log.Debug("the leader has not added an entry", "error", err)
			}
		}
		before = applied
	}
}

// addEntry makes the leader add an entry that changes nothing: etcd answers a question about authentication through Raft.
func (m *Member) addEntry(ctx context.Context) error {
	leader := m.etcd.Server.Leader()
	conn, err := m.others.to(manage.Member{ID: uint64(leader), ClientURLs: m.clientURLs(leader)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	_, err = pb.NewAuthClient(conn).AuthStatus(ctx, &pb.AuthStatusRequest{})
	return err
}
