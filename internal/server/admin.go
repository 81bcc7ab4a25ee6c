package server

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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
	"github.com/fanoutd/fanoutd/internal/version"
)

// maxWatchersPage is the maximum number of watches on a page.
const maxWatchersPage = 1000

// maxProblemBytes is how much a status says about a validation file that cannot be used.
const maxProblemBytes = 1000

// admin implements AdminService.
type admin struct {
	fanoutv1.UnimplementedAdminServiceServer
	resources backend.Resources
	watches   *registry.Registry
	lagScans  *lagScans
	limits    *quota.Limiter
	rights    *rpc.Rights
	since     time.Time // start of the server
	rewrites  int       // maximum number of values that Reencrypt writes in a transaction; 0: writes are off
	space     SpaceReclaimer

	appliedCounts *appliedCounts
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
		if r.Validation != nil {
			status.Validation = &fanoutv1.ValidationStatus{Hash: r.Validation.Set().Hash(), Problem: apierr.Clip(r.Validation.Problem(), maxProblemBytes)}
		}
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
	var after registry.Number
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
	resp := &fanoutv1.ListWatchersResponse{Failing: a.watches.CountFailing(of...)}
	watches := a.watches.After(after, of...)
	if req.GetFailing() {
		resp.Total, watches = resp.GetFailing(), failing(watches)
		if resp.GetTotal() == 0 {
			return resp, nil
		}
	} else {
		counts := a.watches.CountByResource()
		for _, name := range of {
			resp.Total += int64(counts[name])
		}
	}
	if byLag {
		var all bool
		resp.Watchers, all = a.lagScans.list(of, req.GetFailing(), size)
		agreeWithRows(resp, all, req.GetFailing())
		return resp, nil
	}
	bytes, lags := 0, registry.Lags{}
	for one := range watches {
		w := registry.StatusOf(one, lags)
		bytes += proto.Size(w)
		if n := len(resp.GetWatchers()); n == size || n > 0 && bytes > maxListBytes {
			resp.NextPageToken = resp.GetWatchers()[n-1].GetId()
			break
		}
		resp.Watchers = append(resp.Watchers, w)
	}
	agreeWithRows(resp, req.GetPageToken() == "" && resp.GetNextPageToken() == "", req.GetFailing())
	return resp, nil
}

// reserveAndListWatchers is ListWatchers with an encoded response. Its memory is reserved as that of
// a list is: the client may never read it.
func (a *admin) reserveAndListWatchers(ctx context.Context, req *fanoutv1.ListWatchersRequest) (grpcmsg.Pieces, error) {
	if _, err := a.watched(ctx, req.GetResource()); err != nil {
		return nil, err // before it costs anything
	}
	memory := a.limits.ReserveList(ctx, maxListBytes)
	if err := a.limits.AwaitList(ctx, memory); err != nil {
		return nil, err
	}
	return withMemory(ctx, a.limits, memory, func() (grpcmsg.Pieces, error) {
		resp, err := a.ListWatchers(ctx, req)
		if err != nil {
			return nil, err
		}
		encoded, err := proto.Marshal(resp)
		return grpcmsg.Chain([]mem.SliceBuffer{encoded}, nil), err
	})
}

// agreeWithRows makes the numbers of an answer agree with its rows, because watches begin, end and
// report while the server looks at them. If the rows are all watches, or all failing ones, it counts
// them. Otherwise, the numbers are at least those of the rows.
func agreeWithRows(resp *fanoutv1.ListWatchersResponse, all, onlyFailing bool) {
	if onlyFailing {
		resp.Watchers = slices.DeleteFunc(resp.GetWatchers(), func(w *fanoutv1.WatcherStatus) bool { return w.GetError() == nil })
	}
	total, failing := int64(len(resp.GetWatchers())), int64(0)
	for _, w := range resp.GetWatchers() {
		if w.GetError() != nil {
			failing++
		}
	}
	if !all {
		total, failing = max(resp.GetTotal(), total), max(resp.GetFailing(), failing)
	}
	resp.Total, resp.Failing = total, failing
}

// failing returns those of the watches whose last report has an error.
func failing(all iter.Seq[registry.Watch]) iter.Seq[registry.Watch] {
	return func(yield func(registry.Watch) bool) {
		for w := range all {
			if registry.IsFailing(w) && !yield(w) {
				return
			}
		}
	}
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

// EndWatcher implements AdminService.
func (a *admin) EndWatcher(ctx context.Context, req *fanoutv1.EndWatcherRequest) (*fanoutv1.EndWatcherResponse, error) {
	of, err := a.administered(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetId() == "" {
		return nil, apierr.InvalidError{{Field: "id", Description: "must not be empty"}}
	}
	w := a.watches.Find(req.GetId())
	if w == nil || !slices.Contains(of, w.Resource()) {
		return &fanoutv1.EndWatcherResponse{}, nil
	}
	w.End(apierr.ErrEndedByOperator)
	return &fanoutv1.EndWatcherResponse{Ended: true}, nil
}
