package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/mem"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// maxListBytes is the size of the objects in one response, unless a single object is
// larger. It leaves room below the 4 MiB that clients accept by default.
const maxListBytes = 3 << 20

// List implements FanoutService.
func (f *fanout) List(ctx context.Context, req *fanoutv1.ListRequest) (grpcmsg.Pieces, error) {
	target := request.ParseTarget(req)
	if err := f.rights.MayRead(ctx, policy.List, target); err != nil {
		return nil, err
	}
	resource, err := f.resources.Find(target.Resource)
	if err != nil {
		return nil, err
	}
	list, err := request.ParseList(target, req, resource.Fields, resource.Codec)
	if err != nil {
		return nil, err
	}
	source := resource.Source()
	// The list waits for freshness before it reserves memory: a list that waits for etcd
	// must not delay lists that do not.
	view, err := firstView(ctx, source, &list)
	if err != nil {
		return nil, err
	}
	next := func() (backend.View, error) {
		if v := view; v != nil {
			view = nil
			return v, nil
		}
		return nextView(ctx, source, &list)
	}
	if list.CountOnly {
		return retryExpired(list.Consistency.Level != object.Exactly, func() (grpcmsg.Pieces, error) {
			v, err := next()
			if err != nil {
				return nil, err
			}
			n, err := count(ctx, list.Page.Query, v)
			if err != nil {
				return nil, err
			}
			return grpcmsg.Chain(nil, wire.AppendListEnd(nil, v.Position(), "", n)), nil
		})
	}
	memory := f.limits.ReserveList(ctx, maxListBytes)
	if !memory.Granted() {
		view = nil // a list that waits for memory must not keep a state alive
		if err := f.limits.AwaitList(ctx, memory); err != nil {
			return nil, err
		}
	}
	acceptsNewer := list.Page.Position == (object.Position{}) && list.Consistency.Level != object.Exactly
	return withMemory(ctx, f.limits, memory, func() (grpcmsg.Pieces, error) {
		return retryExpired(acceptsNewer, func() (grpcmsg.Pieces, error) {
			v, err := next()
			if err != nil {
				return nil, err
			}
			return readPage(ctx, &list, v)
		})
	})
}

// withMemory makes a response whose memory is reserved as that of a list. What the response takes of it
// stays reserved until gRPC has sent the response, because the client may never read it.
func withMemory(ctx context.Context, limits *quota.Limiter, memory *quota.Reservation, respond func() (grpcmsg.Pieces, error)) (grpcmsg.Pieces, error) {
	kept := false // by the response
	defer func() {
		if !kept {
			memory.Release()
		}
	}()
	response, err := respond()
	if err != nil {
		return nil, err
	}
	kept = true
	if memory == nil || limits.KeepForGateway(ctx, memory, response.Size()) {
		return response, nil
	}
	memory.Shrink(int64(response.Size()))
	return response.OnRelease(memory.Release), nil
}

// count returns the number of objects that a query selects.
func count(ctx context.Context, q request.Query, v backend.View) (int, error) {
	if q.Selector.String() == "" && v.CountsCheaply() {
		return v.Count(ctx, q.Scope, q.Start)
	}
	n := 0
	for o, err := range v.Objects(ctx, q.Scope, q.Start) {
		if err != nil {
			return 0, err
		}
		if q.Selector.Matches(o) {
			n++
		}
	}
	return n, nil
}

// firstView waits until the resource is as fresh as the list requires. The first page of
// a list decides its position; a later page is read at the position in its token.
func firstView(ctx context.Context, s backend.Source, list *request.List) (backend.View, error) {
	if list.Page.Position != (object.Position{}) {
		return s.ViewAt(ctx, list.Page.Position)
	}
	return s.View(ctx, list.Consistency)
}

// nextView returns the resource again after firstView has succeeded. States only become
// newer, so the present one is fresh enough.
func nextView(ctx context.Context, s backend.Source, list *request.List) (backend.View, error) {
	if list.Page.Position != (object.Position{}) || list.Consistency.Level == object.Exactly {
		return firstView(ctx, s, list)
	}
	return s.View(ctx, object.Consistency{Level: object.AnyRevision})
}

// readPage returns the next page of a list.
func readPage(ctx context.Context, list *request.List, v backend.View) (grpcmsg.Pieces, error) {
	p, limit := list.Page, list.PageSize
	encode := func(o *object.Object) []byte { return wire.ObjectField(wire.InForm(o, list.Projection)) }
	if list.Projection.OmitValues {
		encode = wire.ObjectFieldWithoutValue
	}
	next := request.Page{Query: p.Query, Position: v.Position(), Next: p.Next, Count: -1}
	pieces := make([]mem.SliceBuffer, 0, max(0, min(limit, p.Count)))
	var last object.Key
	size, more := 0, false
	for o, err := range v.Objects(ctx, p.Query.Scope, p.Next) {
		if err != nil {
			return nil, pageError(p, err)
		}
		if !p.Query.Selector.Matches(o) {
			continue
		}
		field := encode(o)
		if more = len(pieces) > 0 && (size+len(field) > maxListBytes || len(pieces) == limit); more {
			break
		}
		pieces = append(pieces, field)
		size += len(field)
		last = o.Key
	}
	if len(pieces) > 0 {
		next.Next = last + "\x00"
	}
	// The first page counts the objects, and the tokens carry the count. Objects that have
	// to be fetched or matched are not counted: that costs too much.
	switch counts := p.Query.Selector.String() == "" && v.CountsCheaply(); {
	case counts && p.Count >= 0:
		next.Count = p.Count - len(pieces)
	case counts && more:
		n, err := v.Count(ctx, p.Query.Scope, next.Next)
		if err != nil {
			return nil, pageError(p, err)
		}
		next.Count = n
	case counts:
		next.Count = 0
	}
	token := ""
	if more {
		token = next.Token()
	}
	return grpcmsg.Chain(pieces, wire.AppendListEnd(nil, v.Position(), token, next.Count)), nil
}

// pageError adds to an error the token with which the list can be continued.
func pageError(p request.Page, err error) error {
	if expired, ok := errors.AsType[*apierr.ExpiredError](err); ok && p.Position != (object.Position{}) {
		renewed := p
		renewed.Position, renewed.Count = object.Position{}, -1
		return &apierr.PageExpiredError{ExpiredError: expired, Token: renewed.Token()}
	}
	return err
}
