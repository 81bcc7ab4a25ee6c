package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/object"
)

const (
	// questionTimeout limits a question to a member.
	questionTimeout = 2 * time.Second

	// etcd removes a member only once those that remain have been connected for five seconds.
	removeTimeout = 15 * time.Second
	removeRetry   = 500 * time.Millisecond
)

// Cluster asks all members of the cluster about their state. It implements [manage.Etcd].
func (m *Member) Cluster(ctx context.Context) (manage.Cluster, error) {
	if m.stopped() {
		return manage.Cluster{}, object.ErrUnavailable
	}
	server := m.etcd.Server
	c := manage.Cluster{ID: uint64(server.Cluster().ID()), Self: uint64(server.MemberID()), Majority: m.majority}
	if v := server.Cluster().Version(); v != nil {
		c.Version = v.String()
	}
	list, confirmed, err := m.members(ctx)
	if err != nil {
		return c, err
	}
	c.Unconfirmed = !confirmed
	alarms := server.Alarms()
	for _, a := range alarms {
		if !slices.ContainsFunc(list, func(one *pb.Member) bool { return one.GetID() == a.GetMemberID() }) {
			c.OtherAlarms = append(c.OtherAlarms, manage.Alarm{Member: a.GetMemberID(), Corrupt: a.GetAlarm() == pb.AlarmType_CORRUPT})
		}
	}
	m.others.keep(list)
	c.Members = make([]manage.Member, len(list))
	var asking sync.WaitGroup
	for i, one := range list {
		member := manage.Member{ID: one.GetID(), Name: one.GetName(), ClientURLs: one.GetClientURLs(), Learner: one.GetIsLearner()}
		if m.several {
			member.PeerURLs = one.GetPeerURLs()
		}
		for _, a := range alarms {
			if a.GetMemberID() == member.ID {
				member.Corrupt = member.Corrupt || a.GetAlarm() == pb.AlarmType_CORRUPT
				member.NoSpace = member.NoSpace || a.GetAlarm() == pb.AlarmType_NOSPACE
			}
		}
		asking.Go(func() {
			report, err := m.ask(ctx, member)
			if err != nil {
				member.Problem = problem(err)
			} else {
				member.Report = report
			}
			c.Members[i] = member
		})
	}
	asking.Wait()
	return c, ctx.Err()
}

// members returns the list that a majority has confirmed, or if none does in time, that of this member.
func (m *Member) members(ctx context.Context) (list []*pb.Member, confirmed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	resp, err := m.Client.MemberList(ctx)
	if err == nil {
		return resp.Members, true, nil
	}
	var known []*pb.Member
	for _, one := range m.etcd.Server.Cluster().Members() {
		known = append(known, &pb.Member{ID: uint64(one.ID), Name: one.Name, PeerURLs: one.PeerURLs, ClientURLs: one.ClientURLs, IsLearner: one.IsLearner})
	}
	if len(known) == 0 {
		return nil, false, fmt.Errorf("list the members: %w", err)
	}
	return known, false, nil
}

// ask returns the report of a member.
func (m *Member) ask(ctx context.Context, member manage.Member) (*manage.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	if member.ID == uint64(m.etcd.Server.MemberID()) {
		return reportOf(m.status(), m.about()), nil
	}
	conn, err := m.others.to(member)
	if err != nil {
		return nil, err
	}
	var more metadata.MD
	status, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.Header(&more))
	if err != nil {
		return nil, err
	}
	return reportOf(status, more), nil
}

// RemoveMember implements [manage.Etcd].
func (m *Member) RemoveMember(ctx context.Context, via, id uint64) error {
	members, err := m.clusterOf(ctx, via)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		_, err = members.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
		err = rpctypes.Error(err)
		if !errors.Is(err, rpctypes.ErrUnhealthy) {
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removeRetry):
		}
	}
	if errors.Is(err, rpctypes.ErrMemberNotFound) {
		return nil // it is removed already
	}
	return err
}

// HasRemoved reports whether a member is not in the list of members any more, as far as this one knows.
func (m *Member) HasRemoved(id uint64) bool {
	return m.etcd.Server.Cluster().Member(types.ID(id)) == nil
}

// clusterOf returns the service of a member that changes the members.
func (m *Member) clusterOf(ctx context.Context, id uint64) (pb.ClusterClient, error) {
	if id == uint64(m.etcd.Server.MemberID()) {
		return m.memberships, nil
	}
	conn, err := m.connection(ctx, id)
	if err != nil {
		return nil, err
	}
	return pb.NewClusterClient(conn), nil
}

// connection returns the connection to another member.
func (m *Member) connection(ctx context.Context, id uint64) (*grpc.ClientConn, error) {
	list, _, err := m.members(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if one.GetID() == id {
			return m.others.to(manage.Member{ID: id, ClientURLs: one.GetClientURLs()})
		}
	}
	return nil, rpctypes.ErrMemberNotFound
}

// UpdateMember implements [manage.Etcd].
func (m *Member) UpdateMember(ctx context.Context, id uint64, peerURL string) error {
	// Raft may drop the change, and etcd would then wait for ever.
	ctx, cancel := context.WithTimeout(ctx, m.etcd.Server.Cfg.ReqTimeout())
	defer cancel()
	_, err := m.memberships.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: id, PeerURLs: []string{peerURL}})
	return rpctypes.Error(err)
}

// MoveLeader implements [manage.Etcd].
func (m *Member) MoveLeader(ctx context.Context, leader, to uint64) error {
	ctx, cancel := context.WithTimeout(ctx, m.etcd.Server.Cfg.ReqTimeout())
	defer cancel()
	at := m.maintenance
	if leader != uint64(m.etcd.Server.MemberID()) {
		conn, err := m.connection(ctx, leader)
		if err != nil {
			return err
		}
		at = pb.NewMaintenanceClient(conn)
	}
	_, err := at.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to})
	return rpctypes.Error(err)
}

// Defragment implements [manage.Etcd].
func (m *Member) Defragment(ctx context.Context, id uint64) (before, after int64, err error) {
	if id == uint64(m.etcd.Server.MemberID()) {
		before, after, err = m.defragmentNow(ctx)
	} else {
		before, after, err = m.defragmentOther(ctx, id)
	}
	if err != nil {
		return 0, 0, err
	}
	_, err = m.endAlarms(ctx)
	return before, after, err
}

func (m *Member) defragmentOther(ctx context.Context, id uint64) (before, after int64, err error) {
	conn, err := m.connection(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	other := pb.NewMaintenanceClient(conn)
	size := func() (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, questionTimeout)
		defer cancel()
		status, err := other.Status(ctx, &pb.StatusRequest{})
		return status.GetDbSize(), rpctypes.Error(err)
	}
	if before, err = size(); err != nil {
		return 0, 0, err
	}
	if _, err := other.Defragment(ctx, &pb.DefragmentRequest{}); err != nil {
		return 0, 0, rpctypes.Error(err)
	}
	after, err = size()
	return before, after, err
}

// defragmentNow defragments the own database if there is room on the disk.
func (m *Member) defragmentNow(ctx context.Context) (before, after int64, err error) {
	m.space.Lock()
	defer m.space.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if m.stopped() {
		return 0, 0, object.ErrUnavailable
	}
	before = m.backend().Size()
	err = m.defragment()
	return before, m.backend().Size(), err
}

// Hash implements [manage.Etcd].
func (m *Member) Hash(ctx context.Context, id uint64) (manage.Hash, error) {
	at := m.maintenance
	if id != uint64(m.etcd.Server.MemberID()) {
		conn, err := m.connection(ctx, id)
		if err != nil {
			return manage.Hash{}, err
		}
		at = pb.NewMaintenanceClient(conn)
	}
	resp, err := at.HashKV(ctx, &pb.HashKVRequest{})
	if err != nil {
		return manage.Hash{}, rpctypes.Error(err)
	}
	return manage.Hash{Revision: resp.GetHashRevision(), Compacted: resp.GetCompactRevision(), Sum: resp.GetHash()}, nil
}

// Disarm implements [manage.Etcd].
func (m *Member) Disarm(ctx context.Context, alarm manage.Alarm) error {
	ctx, cancel := context.WithTimeout(ctx, m.etcd.Server.Cfg.ReqTimeout())
	defer cancel()
	kind := pb.AlarmType_NOSPACE
	if alarm.Corrupt {
		kind = pb.AlarmType_CORRUPT
	}
	_, err := m.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: kind, MemberID: alarm.Member})
	return err
}

// Snapshot implements [manage.Etcd].
func (m *Member) Snapshot(ctx context.Context, send func(chunk []byte, remaining int64) error) error {
	if m.stopped() {
		return object.ErrUnavailable
	}
	return sendSnapshot(ctx, m.maintenance, send)
}

// errUnreadable means that etcd could not read its database to the end. etcd then sends empty parts without end.
var errUnreadable = errors.New("etcd cannot read its database to the end: take the snapshot from another server")

// sendSnapshot sends a snapshot of etcd. When it returns, the read transaction of the database ends.
func sendSnapshot(ctx context.Context, etcd pb.MaintenanceClient, send func(chunk []byte, remaining int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := etcd.Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(part.GetBlob()) == 0 && part.GetRemainingBytes() > 0 {
			return errUnreadable
		}
		if err := send(part.GetBlob(), int64(part.GetRemainingBytes())); err != nil {
			return err
		}
	}
}
