package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// WatchApplied implements AdminService.
func (a *admin) WatchApplied(req *fanoutv1.WatchAppliedRequest, stream grpc.ServerStreamingServer[fanoutv1.WatchAppliedResponse]) error {
	ctx := stream.Context()
	may := func() error {
		if err := a.rights.May(ctx, policy.Admin, req.GetResource(), object.Scope{}); err != nil {
			return err
		}
		return rpc.PassOf(ctx).Check()
	}
	if err := may(); err != nil {
		return err
	}
	if _, err := a.resources.Find(req.GetResource()); err != nil {
		return err
	}
	query, err := request.ParseWatchApplied(req)
	if err != nil {
		return err
	}
	release, err := a.limits.AppliedWait(ctx)
	if err != nil {
		return err
	}
	defer release()
	count, done := a.appliedCounts.use(query)
	defer done()
	out := &appliedSender{stream: stream, limits: a.limits}
	var sent registry.Digest
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := may(); err != nil {
			return err
		}
		if out.isUnread() {
			next.Reset(appliedTick)
			continue
		}
		digest, due := count.current()
		next.Reset(due.Sub(a.appliedCounts.now()))
		if digest == sent {
			continue
		}
		if sent, err = out.send(ctx, count, may); err != nil {
			return err
		}
	}
}

// appliedSender sends the answers to a request. At most one of them waits for its client, and its
// memory is reserved as that of a list is.
type appliedSender struct {
	stream grpc.ServerStream
	limits *quota.Limiter

	written        *atomic.Bool // of the latest message: gRPC no longer holds it; nil: there is none
	keptForGateway bool         // the memory of all messages is reserved
}

// isUnread reports whether a message still waits for the client.
func (s *appliedSender) isUnread() bool { return s.written != nil && !s.written.Load() }

// send waits for memory and sends the count of that time. It returns the digest of the count.
func (s *appliedSender) send(ctx context.Context, count *appliedCount, may func() error) (registry.Digest, error) {
	memory, err := s.reserve(ctx)
	if err != nil {
		return registry.Digest{}, err
	}
	message, digest, err := count.encoded()
	if err == nil {
		err = may() // the wait for memory may have taken long
	}
	if err != nil {
		memory.Release()
		return digest, err
	}
	memory.Shrink(int64(len(message)))
	written := &atomic.Bool{}
	s.written = written
	response := grpcmsg.Chain([]mem.SliceBuffer{message}, nil).OnRelease(func() {
		written.Store(true)
		memory.Release()
	})
	return digest, s.stream.SendMsg(response)
}

// reserve waits for the memory of the largest message. The gateway holds messages until its own
// client has read them, so its memory stays reserved until the request ends.
func (s *appliedSender) reserve(ctx context.Context) (*quota.Reservation, error) {
	if s.keptForGateway {
		return nil, nil
	}
	memory := s.limits.ReserveList(ctx, maxAppliedBytes)
	if err := s.limits.AwaitList(ctx, memory); err != nil {
		return nil, err
	}
	if memory == nil || !s.limits.KeepForGateway(ctx, memory, maxAppliedBytes) {
		return memory, nil
	}
	s.keptForGateway = true
	return nil, nil
}
