package embedded

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// fullDiskInterval is the time between two looks of a leader at its disk.
const fullDiskInterval = time.Second

// leaveFullDisk makes another member the leader while this one leads and its disk is full, until ctx is done. The
// leader refuses the writes of all servers then. A follower with a full disk cannot refuse them: it ends when it can
// store no more, and the others go on without it.
func (m *Member) leaveFullDisk(ctx context.Context) {
	ticker := time.NewTicker(fullDiskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if _, accepts := m.disk.status(); accepts || !m.leads() {
			continue
		}
		c, err := m.Cluster(ctx)
		if err != nil {
			continue
		}
		other := roomiest(c)
		if other == nil {
			continue
		}
		if err := m.MoveLeader(ctx, c.Self, other.ID); err != nil {
			m.log.Warn("could not hand the leadership of the cluster over, although the disk is full", "to", other.Name, "error", err)
			continue
		}
		m.log.Warn("handed the leadership of the cluster over, because the disk is full", "to", other.Name)
	}
}

// roomiest returns the healthy voter with the most free space on its disk, or nil if none of the others accepts puts.
func roomiest(c manage.Cluster) (best *manage.Member) {
	for i := range c.Members {
		m := &c.Members[i]
		if m.ID == c.Self || m.Learner || m.Report == nil || c.Trouble(*m) != "" || m.Report.DiskFull || m.Report.DiskFree < minFreeBytes+recoverBytes {
			continue
		}
		if best == nil || m.Report.DiskFree > best.Report.DiskFree {
			best = m
		}
	}
	return best
}
