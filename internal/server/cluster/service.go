// Package cluster implements ClusterService over a [manage.Manager]: it checks the rights, and
// translates between the protocol and Go. Package manage decides what is safe.
package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// Service implements ClusterService.
type Service struct {
	fanoutv1.UnimplementedClusterServiceServer
	rights  *rpc.Rights
	manager *manage.Manager // nil: there is no etcd
	stall   time.Duration   // see TakeSnapshot
}

// New returns the service of an etcd; nil: there is none.
func New(etcd manage.Etcd, rights *rpc.Rights) *Service {
	s := &Service{rights: rights, stall: stall}
	if etcd != nil {
		s.manager = manage.New(etcd)
	}
	return s
}

// admit returns the manager if the caller may manage the cluster.
func (s *Service) admit(ctx context.Context) (*manage.Manager, error) {
	if err := s.rights.May(ctx, policy.Admin, rpc.EveryResource, object.Scope{}); err != nil {
		return nil, err
	}
	if s.manager == nil {
		return nil, object.ErrNotEmbedded
	}
	return s.manager, nil
}

// required returns an error if a field is empty.
func required(field, value string) error {
	if value == "" {
		return apierr.InvalidError{{Field: field, Description: "must not be empty"}}
	}
	return nil
}

// GetCluster implements ClusterService.
func (s *Service) GetCluster(ctx context.Context, _ *fanoutv1.GetClusterRequest) (*fanoutv1.GetClusterResponse, error) {
	m, err := s.admit(ctx)
	if err != nil {
		return nil, err
	}
	c, err := m.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return answer(c), nil
}

// RemoveMember implements ClusterService.
func (s *Service) RemoveMember(ctx context.Context, req *fanoutv1.RemoveMemberRequest) (*fanoutv1.RemoveMemberResponse, error) {
	m, err := s.admit(ctx)
	if err == nil {
		err = required("member", req.GetMember())
	}
	if err != nil {
		return nil, err
	}
	c, err := m.Remove(ctx, req.GetMember(), req.GetOnlyIfDead())
	if err != nil {
		return nil, err
	}
	return &fanoutv1.RemoveMemberResponse{Cluster: answer(c)}, nil
}

// UpdateMember implements ClusterService.
func (s *Service) UpdateMember(ctx context.Context, req *fanoutv1.UpdateMemberRequest) (*fanoutv1.UpdateMemberResponse, error) {
	m, err := s.admit(ctx)
	if err == nil {
		err = required("member", req.GetMember())
	}
	if err == nil {
		err = checkAddress(req.GetAddress())
	}
	if err != nil {
		return nil, err
	}
	to, err := m.Update(ctx, req.GetMember(), func(present string) string { return peerURL(req.GetAddress(), present) })
	if err != nil {
		return nil, err
	}
	return &fanoutv1.UpdateMemberResponse{PeerUrl: to}, nil
}

// checkAddress validates a host with an optional port.
func checkAddress(address string) error {
	u, err := url.Parse("//" + address)
	if address == "" || err != nil || u.Hostname() == "" || u.Host != address {
		return apierr.InvalidError{{Field: "address", Description: "must be a host, or a host and a port, such as 10.0.0.3:2380"}}
	}
	return nil
}

// peerURL returns the URL of an address. What it does not say is as in the present URL.
func peerURL(address, present string) string {
	scheme, port := "https", "2380"
	if u, err := url.Parse(present); err == nil && u.Host != "" {
		scheme, port = u.Scheme, u.Port()
	}
	u := url.URL{Scheme: scheme, Host: address}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u.String()
}

// MoveLeader implements ClusterService.
func (s *Service) MoveLeader(ctx context.Context, req *fanoutv1.MoveLeaderRequest) (*fanoutv1.MoveLeaderResponse, error) {
	m, err := s.admit(ctx)
	if err != nil {
		return nil, err
	}
	from, to, err := m.MoveLeader(ctx, req.GetMember())
	if err != nil {
		return nil, err
	}
	return &fanoutv1.MoveLeaderResponse{From: from.Label(), To: to.Label()}, nil
}

// DefragmentMember implements ClusterService.
func (s *Service) DefragmentMember(ctx context.Context, req *fanoutv1.DefragmentMemberRequest) (*fanoutv1.DefragmentMemberResponse, error) {
	m, err := s.admit(ctx)
	if err == nil {
		err = required("member", req.GetMember())
	}
	if err != nil {
		return nil, err
	}
	before, after, err := m.Defragment(ctx, req.GetMember())
	if err != nil {
		return nil, err
	}
	return &fanoutv1.DefragmentMemberResponse{BytesBefore: before, Bytes: after}, nil
}

// DisarmAlarms implements ClusterService.
func (s *Service) DisarmAlarms(ctx context.Context, _ *fanoutv1.DisarmAlarmsRequest) (*fanoutv1.DisarmAlarmsResponse, error) {
	m, err := s.admit(ctx)
	if err != nil {
		return nil, err
	}
	cleared, c, err := m.Disarm(ctx)
	if err != nil {
		return nil, err
	}
	return &fanoutv1.DisarmAlarmsResponse{Cleared: alarms(cleared), Cluster: answer(c)}, nil
}

// alarms returns alarms in the protocol.
func alarms(of []manage.Alarm) (all []*fanoutv1.ClusterAlarm) {
	for _, a := range of {
		one := &fanoutv1.ClusterAlarm{Alarm: fanoutv1.ClusterMember_ALARM_NO_SPACE}
		if a.Corrupt {
			one.Alarm = fanoutv1.ClusterMember_ALARM_CORRUPT
		}
		if a.Member != 0 {
			one.MemberId = hex(a.Member)
		}
		all = append(all, one)
	}
	return all
}

// answer returns the state of a cluster in the protocol.
func answer(c manage.Cluster) *fanoutv1.GetClusterResponse {
	resp := &fanoutv1.GetClusterResponse{ClusterId: hex(c.ID), ClusterVersion: c.Version, Problem: c.Unsafe(), OtherAlarms: alarms(c.OtherAlarms), Unconfirmed: c.Unconfirmed}
	resp.Safe = resp.GetProblem() == ""
	leader := c.Leader()
	if leader != nil {
		resp.Leader = leader.Label()
	}
	for _, m := range c.Members {
		one := member(c, m)
		if leader != nil && leader.ID == m.ID {
			one.Role = fanoutv1.ClusterMember_ROLE_LEADER
		}
		if m.ID == c.Self {
			resp.AnsweredBy = m.Label()
		}
		resp.Members = append(resp.Members, one)
	}
	return resp
}

func member(c manage.Cluster, m manage.Member) *fanoutv1.ClusterMember {
	one := &fanoutv1.ClusterMember{
		Name: m.Name, Id: hex(m.ID), PeerUrls: m.PeerURLs, ClientUrls: m.ClientURLs, Role: fanoutv1.ClusterMember_ROLE_FOLLOWER,
		Problem: c.Trouble(m), MayFail: c.MayFail(m),
	}
	one.Healthy = one.GetProblem() == ""
	if m.Learner {
		one.Role = fanoutv1.ClusterMember_ROLE_LEARNER
	}
	if m.NoSpace {
		one.Alarms = append(one.Alarms, fanoutv1.ClusterMember_ALARM_NO_SPACE)
	}
	if m.Corrupt {
		one.Alarms = append(one.Alarms, fanoutv1.ClusterMember_ALARM_CORRUPT)
	}
	r := m.Report
	if r == nil {
		return one
	}
	if lag, ok := c.Lag(m); ok {
		one.LagEntries = &lag
	}
	one.EtcdVersion, one.Version = r.EtcdVersion, r.Version
	one.DatabaseBytes, one.DatabaseBytesInUse, one.QuotaBytes = r.Database, r.InUse, r.Quota
	if r.DiskFree >= 0 {
		one.DiskFreeBytes = &r.DiskFree
	}
	if !r.CertificateExpires.IsZero() {
		one.CertificateExpires = timestamppb.New(r.CertificateExpires)
	}
	return one
}

// hex returns an id as etcd prints it.
func hex(id uint64) string { return fmt.Sprintf("%x", id) }
