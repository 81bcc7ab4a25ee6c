package server

import (
	"context"
	"errors"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// fanout implements FanoutService.
type fanout struct {
	resources      backend.Resources
	drain          *drain
	sessions       *sessions
	rights         *rpc.Rights
	examine        func(*session) error // why a watch may not go on, or nil
	limits         *quota.Limiter
	lanes          *lanes
	watchTimeLimit time.Duration // see Config
}

// Get implements FanoutService.
func (f *fanout) Get(ctx context.Context, req *fanoutv1.GetRequest) (grpcmsg.Encoded, error) {
	if err := f.rights.May(ctx, policy.Get, req.GetResource(), object.ExactKey(object.Key(req.GetKey()))); err != nil {
		return nil, err
	}
	resource, err := f.resources.Find(req.GetResource())
	if err != nil {
		return nil, err
	}
	get, err := request.ParseGet(req)
	if err != nil {
		return nil, err
	}
	return retryExpired(get.Consistency.Level != request.Exactly, func() (grpcmsg.Encoded, error) {
		view, err := resource.Source().View(ctx, get.Consistency)
		if err != nil {
			return nil, err
		}
		for o, err := range view.Objects(ctx, object.ExactKey(get.Key), "") {
			if err != nil {
				return nil, err
			}
			found := grpcmsg.Join([][]byte{wire.ObjectField(o)}, wire.AppendPosition(nil, view.Position()))
			return found, f.limits.Answer(ctx, found.Size())
		}
		return nil, &apierr.NotFoundError{Key: get.Key, Revision: view.Position().Revision}
	})
}

// retryExpired reads again if the store has compacted the revision while it was being
// read, and the request accepts a newer one.
func retryExpired(acceptsNewer bool, read func() (grpcmsg.Encoded, error)) (grpcmsg.Encoded, error) {
	const attempts = 3
	for n := 1; ; n++ {
		e, err := read()
		if _, expired := errors.AsType[*apierr.ExpiredError](err); !expired || !acceptsNewer || n == attempts {
			return e, err
		}
	}
}
