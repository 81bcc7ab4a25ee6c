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

const (
	maxPageSize = 10_000

	// maxListBytes is the size of the objects in one response, unless one object
	// is larger: it leaves room below the 4 MiB that clients accept by default.
	maxListBytes = 3 << 20
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
	var check request.Checker
	if _, err := object.ParseKeyScope(req.GetKey()); err != nil {
		check.Refuse("key", "%v", err)
	}
	consistency := check.Consistency("consistency", req.GetConsistency())
	if err := check.Err(); err != nil {
		return nil, err
	}
	key := object.Key(req.GetKey())
	return untilKnown(consistency.Level != request.Exactly, func() (grpcmsg.Encoded, error) {
		view, err := resource.Source().View(ctx, consistency)
		if err != nil {
			return nil, err
		}
		for o, err := range view.Objects(ctx, object.ExactKey(key), "") {
			if err != nil {
				return nil, err
			}
			found := grpcmsg.Join([][]byte{wire.ObjectField(o)}, wire.AppendPosition(nil, view.Position()))
			return found, f.limits.Answer(ctx, found.Size())
		}
		return nil, &apierr.NotFoundError{Key: key, Revision: view.Position().Revision}
	})
}

// untilKnown reads again where the revision that was read at was forgotten in the
// meantime, if any newer one will do.
func untilKnown(anyNewer bool, read func() (grpcmsg.Encoded, error)) (grpcmsg.Encoded, error) {
	const attempts = 3
	for n := 1; ; n++ {
		e, err := read()
		if _, expired := errors.AsType[*apierr.ExpiredError](err); !expired || !anyNewer || n == attempts {
			return e, err
		}
	}
}

// List implements FanoutService.
func (f *fanout) List(ctx context.Context, req *fanoutv1.ListRequest) (grpcmsg.Encoded, error) {
	if err := f.rights.MayWithin(ctx, policy.List, req.GetResource(), req.GetScope()); err != nil {
		return nil, err
	}
	resource, err := f.resources.Find(req.GetResource())
	if err != nil {
		return nil, err
	}
	var check request.Checker
	query := request.Query{
		Resource: resource.Name,
		Scope:    check.Scope("scope", req.GetScope()),
		Selector: check.Selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
		Start:    object.Key(req.GetStartKey()),
	}
	asked := check.Consistency("consistency", req.GetConsistency())
	pageSize := check.PageSize("page_size", req.GetPageSize(), maxPageSize)
	page := request.FirstPage(query)
	if token := req.GetPageToken(); token != "" {
		if page, err = request.ParsePageToken(token, query); err != nil {
			check.Refuse("page_token", "%v", err)
		}
		if asked != (request.Consistency{}) {
			check.Refuse("consistency", "must be left out with a page token, which has the revision of the first page")
		}
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	room, err := f.limits.List(ctx, maxListBytes)
	if err != nil {
		return nil, err
	}
	held := false // by the response
	defer func() {
		if !held {
			room.Release()
		}
	}()
	list, err := untilKnown(page.Position == (object.Position{}) && asked.Level != request.Exactly, func() (grpcmsg.Encoded, error) {
		view, err := viewOf(ctx, page, resource.Source(), asked)
		if err != nil {
			return nil, err
		}
		return readPage(ctx, page, view, pageSize)
	})
	if err != nil {
		return nil, err
	}
	held = true
	switch {
	case room == nil || f.limits.KeepForGateway(ctx, room, list.Size()):
		return list, nil
	default:
		room.Shrink(int64(list.Size()))
		return list.OnRelease(room.Release), nil
	}
}
