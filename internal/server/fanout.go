package server

import (
	"context"
	"errors"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// fanout implements FanoutService.
type fanout struct {
	resources backend.Resources
	rights    *rpc.Rights
	limits    *quota.Limiter
	watches   *registry.Registry
}

// Get implements FanoutService.
func (f *fanout) Get(ctx context.Context, req *fanoutv1.GetRequest) (grpcmsg.Pieces, error) {
	if err := f.rights.May(ctx, policy.Get, req.GetResource(), object.ExactKey(object.Key(req.GetKey()))); err != nil {
		return nil, err
	}
	if req.GetLastChange() {
		if err := f.rights.May(ctx, policy.History, req.GetResource(), object.ExactKey(object.Key(req.GetKey()))); err != nil {
			return nil, err
		}
	}
	resource, err := f.resources.Find(req.GetResource())
	if err != nil {
		return nil, err
	}
	get, err := request.ParseGet(req, resource.Codec)
	if err != nil {
		return nil, err
	}
	return retryExpired(get.Consistency.Level != object.Exactly, func() (grpcmsg.Pieces, error) {
		view, err := resource.Source().View(ctx, get.Consistency)
		if err != nil {
			return nil, err
		}
		o, err := view.Object(ctx, get.Key)
		if err != nil {
			return nil, err
		}
		if o == nil {
			return nil, &apierr.NotFoundError{Key: get.Key, Revision: view.Position().Revision}
		}
		left, hasTTL := remainingTTL(ctx, resource, get, o)
		var last []byte
		if req.GetLastChange() {
			if last, err = appendLastChange(ctx, resource, o, nil); err != nil {
				return nil, err
			}
		}
		found := grpcmsg.Follow(wire.ObjectField(wire.InForm(o, get.Projection)), func(b []byte) []byte {
			b = append(wire.AppendPosition(b, view.Position()), last...)
			if hasTTL {
				b = wire.AppendTTL(b, left)
			}
			return b
		})
		return found, f.limits.ReserveAnswer(ctx, found.Size())
	})
}

// ttlTimeout limits how long a Get waits until etcd returns how much of a time to live is left.
const ttlTimeout = time.Second

// remainingTTL returns what is left of the time to live of an object. It returns false if the
// object has none, if the request does not ask etcd, and if etcd does not answer.
func remainingTTL(ctx context.Context, r *backend.Resource, get request.Get, o *object.Object) (time.Duration, bool) {
	if o.Lease() == 0 || get.Consistency.Level == object.AnyRevision || get.Consistency.Level == object.Exactly {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, ttlTimeout)
	defer cancel()
	left, err := r.Store.RemainingTTL(ctx, o.Lease())
	return left, err == nil
}

// retryExpired reads again if the store has compacted the revision while it was being
// read, and the request accepts a newer one.
func retryExpired(acceptsNewer bool, read func() (grpcmsg.Pieces, error)) (grpcmsg.Pieces, error) {
	const attempts = 3
	for n := 1; ; n++ {
		e, err := read()
		if _, expired := errors.AsType[*apierr.ExpiredError](err); !expired || !acceptsNewer || n == attempts {
			return e, err
		}
	}
}

// Report implements FanoutService.
func (f *fanout) Report(ctx context.Context, req *fanoutv1.ReportRequest) (*fanoutv1.ReportResponse, error) {
	report, err := request.ParseReport(req)
	if err != nil {
		return nil, err
	}
	w := f.watches.FindByToken(report.Watch)
	if w == nil {
		return nil, apierr.ErrUnknownWatch
	}
	rpc.CallOf(ctx).Resource = w.Resource() // for the audit log
	if caller := access.From(ctx); !w.Caller().HasOpened(caller) {
		return nil, &apierr.ForeignWatchError{Caller: caller, Resource: w.Resource()}
	}
	return &fanoutv1.ReportResponse{}, f.watches.Report(w, report)
}
