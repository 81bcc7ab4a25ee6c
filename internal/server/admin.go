package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/lag"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/watch"
	"github.com/fanoutd/fanoutd/internal/version"
)

// maxWatchersPage is the maximum number of watches on a page.
const maxWatchersPage = 1000

// admin implements AdminService.
type admin struct {
	fanoutv1.UnimplementedAdminServiceServer
	resources backend.Resources
	watches   *watch.Registry
	rights    *rpc.Rights
	since     time.Time // start of the server
	rewrites  int       // maximum number of values that Reencrypt writes in a transaction; 0: writes are off
	space     SpaceReclaimer
}

// administered returns the names of the resources that the caller may administer, sorted.
// It returns an error if there are none.
func (a *admin) administered(ctx context.Context) ([]string, error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(a.resources)), func(name string) bool {
		return a.rights.May(ctx, policy.Admin, name, object.Scope{}) != nil
	})
	if len(names) == 0 {
		return nil, &apierr.DeniedError{Caller: access.From(ctx), Question: policy.Question{Verb: policy.Admin, Resource: rpc.EveryResource}}
	}
	return names, nil
}

// ListResources implements AdminService.
func (a *admin) ListResources(ctx context.Context, req *fanoutv1.ListResourcesRequest) (*fanoutv1.ListResourcesResponse, error) {
	names, err := a.administered(ctx)
	if err != nil {
		return nil, err
	}
	watchers := a.watches.CountByResource()
	resp := &fanoutv1.ListResourcesResponse{Server: &fanoutv1.ServerStatus{
		Id: a.watches.ServerID(), Version: version.Get().Version, Uptime: durationpb.New(time.Since(a.since)),
	}}
	var describing sync.WaitGroup // asks etcd about all resources at once
	for _, name := range names {
		r := a.resources[name]
		status := &fanoutv1.ResourceStatus{Name: name, Codec: r.Codec.Name(), Fields: r.Fields, Watchers: int64(watchers[name])}
		status.Encrypted, status.PrimaryKeyId = r.Values.Encrypts(), r.Values.Primary()
		resp.Resources = append(resp.Resources, status)
		describing.Go(func() {
			source := r.Source()
			status.State = stateOf(source)
			source.Describe(ctx, status, req.GetMeasureLag())
		})
	}
	describing.Wait()
	return resp, nil
}

func stateOf(s backend.Source) fanoutv1.ResourceStatus_State {
	switch {
	case !s.Loaded():
		return fanoutv1.ResourceStatus_STATE_LOADING
	case !s.Following():
		return fanoutv1.ResourceStatus_STATE_CUT_OFF
	}
	return fanoutv1.ResourceStatus_STATE_SERVING
}

// ListWatchers implements AdminService.
func (a *admin) ListWatchers(ctx context.Context, req *fanoutv1.ListWatchersRequest) (*fanoutv1.ListWatchersResponse, error) {
	of, err := a.watched(ctx, req.GetResource())
	if err != nil {
		return nil, err
	}
	var check request.Checker
	size := cmp.Or(check.PageSize("page_size", req.GetPageSize(), maxWatchersPage), maxWatchersPage)
	byLag := check.Order("order", req.GetOrder())
	var after uint64
	if token := req.GetPageToken(); token != "" {
		var ok bool
		if after, ok = a.watches.Number(token); !ok {
			check.Refuse("page_token", "is not a page token of this server")
		}
		if byLag {
			check.Refuse("page_token", "must be empty with ORDER_LAG, which has only one page")
		}
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	all := a.watches.Of(of...)
	resp := &fanoutv1.ListWatchersResponse{Total: int64(len(all))}
	if byLag {
		resp.Watchers = a.mostLagging(all, size)
		return resp, nil
	}
	bytes := 0
	for _, e := range all {
		if e.Number() <= after {
			continue
		}
		w := a.status(e)
		bytes += proto.Size(w)
		if n := len(resp.GetWatchers()); n == size || n > 0 && bytes > maxListBytes {
			resp.NextPageToken = resp.GetWatchers()[n-1].GetId()
			break
		}
		resp.Watchers = append(resp.Watchers, w)
	}
	return resp, nil
}

// watched returns the resources of a ListWatchers request: the named one, or all that the
// caller may administer.
func (a *admin) watched(ctx context.Context, name string) ([]string, error) {
	if name == "" {
		return a.administered(ctx)
	}
	if err := a.rights.May(ctx, policy.Admin, name, object.Scope{}); err != nil {
		return nil, err
	}
	_, err := a.resources.Find(name)
	return []string{name}, err
}

// mostLagging returns the watches with the largest lag. The server does not know how long a
// watch has had no position, if a RESET took away an earlier one.
func (a *admin) mostLagging(all []*watch.Entry, most int) []*fanoutv1.WatcherStatus {
	watchers := make([]*fanoutv1.WatcherStatus, len(all))
	for i, e := range all {
		watchers[i] = a.status(e)
	}
	slices.SortStableFunc(watchers, func(x, y *fanoutv1.WatcherStatus) int { return lagOf(x).Compare(lagOf(y)) })
	bytes := 0
	for i, w := range watchers {
		if bytes += proto.Size(w); i == most || i > 0 && bytes > maxListBytes {
			return watchers[:i]
		}
	}
	return watchers
}

func lagOf(s *fanoutv1.WatcherStatus) lag.Lag {
	return lag.Lag{
		Blocked: s.GetBlocked(), NoPosition: s.GetPosition().GetRevision() == 0,
		IsMinimum: s.GetLagIsMinimum(), Seconds: s.GetLag().AsDuration().Seconds(),
	}
}

// status returns what ListWatchers shows of a watch.
func (a *admin) status(e *watch.Entry) *fanoutv1.WatcherStatus {
	return e.Status(a.resources[e.Resource()])
}

// EndWatcher implements AdminService.
func (a *admin) EndWatcher(ctx context.Context, req *fanoutv1.EndWatcherRequest) (*fanoutv1.EndWatcherResponse, error) {
	of, err := a.administered(ctx)
	if err != nil {
		return nil, err
	}
	var check request.Checker
	if req.GetId() == "" {
		check.Refuse("id", "must not be empty")
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	e := a.watches.Find(req.GetId())
	if e == nil || !slices.Contains(of, e.Resource()) {
		return &fanoutv1.EndWatcherResponse{}, nil
	}
	e.End(apierr.ErrEndedByOperator)
	return &fanoutv1.EndWatcherResponse{Ended: true}, nil
}
