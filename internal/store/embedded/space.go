package embedded

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Database returns the size of the database.
func (m *Member) Database() object.Database {
	free, accepts := m.disk.status()
	return object.Database{Size: m.backend().Size(), InUse: m.backend().SizeInUse(), Quota: m.quota, DiskFree: free, DiskFull: !accepts}
}

// spareBytes is the free space that a full etcd needs before it accepts writes again:
// several times its largest request.
const spareBytes = 8 << 20

// hasRoom reports whether a database of this size is smaller than its quota.
func hasRoom(size, quota int64) bool { return size+spareBytes <= quota }

// recoverSpace makes an embedded etcd that reached its quota accept writes again if that is
// possible at the start: the quota was raised, or deleted data has been compacted and only a
// defragmentation is missing.
func (m *Member) recoverSpace(ctx context.Context) error {
	m.space.Lock()
	defer m.space.Unlock()
	alarms, err := m.spaceAlarms(ctx)
	if err != nil || len(alarms) == 0 {
		return err
	}
	before := m.backend().Size()
	if !hasRoom(before, m.quota) && hasRoom(m.backend().SizeInUse(), m.quota) {
		if err := m.defragment(); err != nil && !errors.Is(err, object.ErrNoSpace) {
			return err
		}
	}
	cleared, err := m.clearAlarms(ctx, alarms)
	switch {
	case err != nil:
		return err
	case cleared:
		m.log.Info("embedded etcd was full and accepts writes again", "bytes_before", before, "bytes", m.backend().Size(), "quota", m.quota)
	default:
		m.log.Warn("embedded etcd is full and refuses writes: delete objects and run fanoutctl reclaim, or raise the quota and restart",
			"bytes", m.backend().Size(), "bytes_in_use", m.backend().SizeInUse(), "quota", m.quota)
	}
	return nil
}

// spaceAlarms returns the alarms that make etcd refuse writes.
func (m *Member) spaceAlarms(ctx context.Context) ([]*pb.AlarmMember, error) {
	resp, err := m.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		return nil, fmt.Errorf("read the space alarm: %w", err)
	}
	return resp.GetAlarms(), nil
}

// clearAlarms clears space alarms if the database of each member that answers has room again. It returns
// false if one has none, or if there are no alarms.
func (m *Member) clearAlarms(ctx context.Context, alarms []*pb.AlarmMember) (cleared bool, err error) {
	if len(alarms) == 0 || !hasRoom(m.backend().Size(), m.quota) {
		return false, nil
	}
	full, err := m.fullMembers(ctx)
	if err != nil {
		return false, err
	}
	if len(full) > 0 {
		m.log.Warn("etcd refuses writes until the databases of other members have room: defragment them", "members", full)
		return false, nil
	}
	for _, alarm := range alarms {
		_, err := m.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.GetAlarm(), MemberID: alarm.GetMemberID()})
		if err != nil {
			return false, fmt.Errorf("clear the space alarm: %w", err)
		}
	}
	return true, nil
}

// fullMembers returns the other members whose databases have no room. Each of them would raise the alarm
// again with the next write.
func (m *Member) fullMembers(ctx context.Context) (names []string, err error) {
	if !m.several {
		return nil, nil
	}
	c, err := m.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the other members for room: %w", err)
	}
	for _, one := range c.Members {
		if r := one.Report; one.ID != c.Self && r != nil && r.Quota > 0 && !hasRoom(r.Database, r.Quota) {
			names = append(names, one.Label())
		}
	}
	return names, nil
}

// endAlarms clears the space alarms whose cause is gone.
func (m *Member) endAlarms(ctx context.Context) (cleared bool, err error) {
	alarms, err := m.spaceAlarms(ctx)
	if err != nil {
		return false, err
	}
	return m.clearAlarms(ctx, alarms)
}

// ReclaimSpace frees the space that nothing needs: it discards the history, unless keepHistory
// is set, defragments the own database, and clears the space alarm if the databases of all members
// are now smaller than their quotas. Other requests to etcd wait while it defragments.
//
// Errors are those of etcd, [*object.SpaceError] if the disk has no room for the
// defragmentation, and [object.ErrUnavailable] if etcd has been stopped.
func (m *Member) ReclaimSpace(ctx context.Context, keepHistory bool) (object.Reclaimed, error) {
	m.space.Lock()
	defer m.space.Unlock()
	if err := ctx.Err(); err != nil {
		return object.Reclaimed{}, err
	}
	if m.stopped() {
		return object.Reclaimed{}, object.ErrUnavailable
	}
	done := object.Reclaimed{Before: m.backend().Size(), Quota: m.quota}
	if !keepHistory {
		var err error
		if done.Compacted, err = m.compact(ctx); err != nil {
			return object.Reclaimed{}, fmt.Errorf("compact: %w", err)
		}
	}
	if err := m.defragment(); err != nil {
		return object.Reclaimed{}, err
	}
	done.After = m.backend().Size()
	var err error
	if done.Cleared, err = m.endAlarms(ctx); err != nil {
		return object.Reclaimed{}, err
	}
	m.log.Info("reclaimed space of embedded etcd", "bytes_before", done.Before, "bytes", done.After,
		"compacted_revision", done.Compacted, "cleared_alarm", done.Cleared)
	return done, nil
}

// stopped reports whether etcd has been stopped, or cannot go on.
func (m *Member) stopped() bool {
	select {
	case <-m.etcd.Server.StopNotify():
		return true
	case <-m.fatal.Happened.Done():
		return true
	default:
		return false
	}
}

// compact discards the history before the present revision.
func (m *Member) compact(ctx context.Context) (object.Revision, error) {
	at := m.etcd.Server.KV().Rev()
	// This returns once the own database has been compacted. Through the leader's member, it would be that one's.
	_, err := m.own.Compact(ctx, &pb.CompactionRequest{Revision: at, Physical: true})
	if err = rpctypes.Error(err); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, err
	}
	return object.Revision(at), nil
}
