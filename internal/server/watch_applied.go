package server

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

const (
	// appliedTick is the time between two counts of WatchApplied. Reports wake nothing, so
	// their number does not matter.
	appliedTick = 500 * time.Millisecond

	// appliedPause is how many times as long as a count takes WatchApplied pauses before the
	// next count. So with very many watches a listener takes a tenth of a processor.
	appliedPause = 9
)

// WatchApplied implements AdminService.
func (a *admin) WatchApplied(req *fanoutv1.WatchAppliedRequest, stream grpc.ServerStreamingServer[fanoutv1.WatchAppliedResponse]) error {
	ctx := stream.Context()
	may := func() error { return a.rights.May(ctx, policy.Admin, req.GetResource(), object.Scope{}) }
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
	var sent *watch.Applied
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := may(); err != nil {
			return err
		}
		if err := rpc.PassOf(ctx).Check(); err != nil {
			return err
		}
		began := time.Now()
		now := a.watches.CountApplied(query)
		tick.Reset(max(appliedTick, appliedPause*time.Since(began)))
		if sent != nil && sent.Equal(now) {
			continue
		}
		if err := stream.Send(appliedResponse(now)); err != nil {
			return err
		}
		sent = now
	}
}

// appliedResponse returns the counts as a message. It leaves out pending watches for which a message has
// no room.
func appliedResponse(now *watch.Applied) *fanoutv1.WatchAppliedResponse {
	resp := &fanoutv1.WatchAppliedResponse{Watches: now.Watches, Applied: now.Applied, Failed: now.Failed}
	bytes := 0
	for _, p := range now.Pending {
		w := p.Watch.Status(nil)
		if bytes += proto.Size(w); bytes > maxListBytes {
			break
		}
		resp.Pending = append(resp.Pending, w)
	}
	return resp
}
