package cluster

import (
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// A snapshot is cut off if stall passes and less than stallBytes were sent. While it is sent, etcd cannot reuse the space of
// data that is deleted, so a client that reads no more would make the database grow.
const (
	stall      = 30 * time.Second
	stallBytes = 1 << 20
)

// TakeSnapshot implements ClusterService.
func (s *Service) TakeSnapshot(req *fanoutv1.TakeSnapshotRequest, stream grpc.ServerStreamingServer[fanoutv1.TakeSnapshotResponse]) error {
	ctx := stream.Context()
	m, err := s.admit(ctx)
	if err != nil {
		return err
	}
	first, sent := true, 0
	stalled := time.AfterFunc(s.stall, func() { rpc.CutOff(ctx) })
	defer stalled.Stop()
	return m.Snapshot(ctx, req.GetAllowUnsafe(), func(from manage.Source, chunk []byte, remaining int64) error {
		part := &fanoutv1.TakeSnapshotResponse{Chunk: chunk, RemainingBytes: remaining}
		if first {
			part.Member, part.Problem, first = from.Member, from.Problem, false
		}
		if err := stream.Send(part); err != nil {
			return err
		}
		if sent += len(chunk); sent >= stallBytes {
			sent = 0
			stalled.Reset(s.stall)
		}
		return nil
	})
}
