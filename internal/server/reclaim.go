package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// SpaceReclaimer frees the space of an embedded etcd.
type SpaceReclaimer interface {
	ReclaimSpace(ctx context.Context, keepHistory bool) (object.Reclaimed, error)
}

// errExternalEtcd has the code that gRPC uses for a missing method.
var errExternalEtcd = status.Error(codes.Unimplemented, "the server uses an external etcd: compact and defragment it with etcdctl")

// ReclaimSpace implements AdminService.
func (a *admin) ReclaimSpace(ctx context.Context, req *fanoutv1.ReclaimSpaceRequest) (*fanoutv1.ReclaimSpaceResponse, error) {
	if err := a.rights.May(ctx, policy.Admin, rpc.EveryResource, object.Scope{}); err != nil {
		return nil, err
	}
	if a.space == nil {
		return nil, errExternalEtcd
	}
	done, err := a.space.ReclaimSpace(ctx, req.GetKeepHistory())
	if errors.Is(err, object.ErrNotEmbedded) {
		return nil, errExternalEtcd
	}
	if err != nil {
		return nil, err
	}
	return &fanoutv1.ReclaimSpaceResponse{
		BytesBefore: done.Before, Bytes: done.After, QuotaBytes: done.Quota,
		CompactedRevision: int64(done.Compacted), AcceptsWritesAgain: done.Cleared,
	}, nil
}
