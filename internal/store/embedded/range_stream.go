package embedded

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// RangeStream calls each with the parts of a range, in order. It returns the first error. The
// client has no such method for an etcd without a socket.
func (m *Member) RangeStream(ctx context.Context, request *pb.RangeRequest, each func([]*mvccpb.KeyValue) error) error {
	return m.etcd.Server.RangeStream(request, &rangeStream{ctx: ctx, each: each})
}

// rangeStream is the part of a gRPC stream that etcd needs to send a range.
type rangeStream struct {
	grpc.ServerStream // nil
	ctx               context.Context
	each              func([]*mvccpb.KeyValue) error
}

// Context implements [grpc.ServerStream].
func (s *rangeStream) Context() context.Context { return s.ctx }

// Send implements [pb.KV_RangeStreamServer].
func (s *rangeStream) Send(part *pb.RangeStreamResponse) error {
	return s.each(part.GetRangeResponse().GetKvs())
}
