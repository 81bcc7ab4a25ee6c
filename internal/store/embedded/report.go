package embedded

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/version"
)

// These headers of etcd's answer to Status say what only a server of fanoutd knows about itself.
const (
	headerVersion     = "fanoutd-version"
	headerDiskFree    = "fanoutd-disk-free"
	headerDiskFull    = "fanoutd-disk-full"           // set while puts are refused
	headerCertificate = "fanoutd-certificate-expires" // in seconds since 1970
)

// about returns the headers of this server.
func (m *Member) about() metadata.MD {
	free, accepts := m.disk.status()
	md := metadata.Pairs(headerVersion, version.Get().Version, headerDiskFree, strconv.FormatInt(free, 10))
	if !accepts {
		md.Set(headerDiskFull, "true")
	}
	if m.tls.Cert != "" {
		now := time.Now()
		if s, err := (certs.Files{CA: m.tls.CA, Cert: m.tls.Cert, Key: m.tls.Key}).Read(now); err == nil {
			md.Set(headerCertificate, strconv.FormatInt(s.NotAfter.Unix(), 10))
		}
	}
	return md
}

// status is etcd's answer to Status without the revision. etcd itself only gives it after a defragmentation.
func (m *Member) status() *pb.StatusResponse {
	s := m.etcd.Server
	return &pb.StatusResponse{
		Header:  &pb.ResponseHeader{ClusterId: uint64(s.Cluster().ID()), MemberId: uint64(s.MemberID()), RaftTerm: s.Term()},
		Version: etcdversion.Version, Leader: uint64(s.Leader()), RaftIndex: s.CommittedIndex(), RaftAppliedIndex: s.AppliedIndex(), RaftTerm: s.Term(),
		DbSize: m.backend().Size(), DbSizeInUse: m.backend().SizeInUse(), DbSizeQuota: m.quota, IsLearner: m.isLearner(),
	}
}

// reportOf returns what a member has answered.
func reportOf(s *pb.StatusResponse, more metadata.MD) *manage.Report {
	r := &manage.Report{
		Leader: s.GetLeader(), Committed: s.GetRaftIndex(), Applied: s.GetRaftAppliedIndex(), EtcdVersion: s.GetVersion(),
		Database: s.GetDbSize(), InUse: s.GetDbSizeInUse(), Quota: s.GetDbSizeQuota(), DiskFree: -1,
	}
	for name, values := range more {
		number, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case name == headerVersion:
			r.Version = values[0]
		case name == headerDiskFree && err == nil:
			r.DiskFree = number
		case name == headerDiskFull:
			r.DiskFull = true
		case name == headerCertificate && err == nil:
			r.CertificateExpires = time.Unix(number, 0)
		}
	}
	return r
}

// answerMembers adds the headers of this server to etcd's answers, and makes a defragmentation look
// at the free space of the disk first.
func (m *Member) answerMembers(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch req.(type) {
	case *pb.StatusRequest:
		about := m.about()
		if m.reaches(ctx) {
			about.Set(headerReached, "true")
		}
		if err := grpc.SetHeader(ctx, about); err != nil {
			return nil, err
		}
		if m.defragmenting.Load() != nil {
			return m.status(), nil
		}
	case *pb.DefragmentRequest:
		_, _, err := m.defragmentNow(ctx)
		if err == nil {
			return &pb.DefragmentResponse{}, nil
		}
		if _, ok := errors.AsType[*object.SpaceError](err); ok {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return handler(ctx, req)
}

// problem describes why a member has not answered.
func problem(err error) string {
	switch s := status.Convert(err); {
	case errors.Is(err, context.DeadlineExceeded), s.Code() == codes.DeadlineExceeded:
		return "no answer"
	case s.Code() == codes.Unavailable:
		return "no answer: " + s.Message()
	default:
		return fmt.Sprintf("no answer: %v", err)
	}
}
