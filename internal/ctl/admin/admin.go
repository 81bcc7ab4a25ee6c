// Package admin is a client of the AdminService: it lists resources and watchers, ends
// watches and reencrypts resources.
//
// A server reports only itself. [Each] queries several servers at once; [MergeResources] and
// [MergeWatchers] combine the answers; [ResourceColumns] and [WatcherColumns] show them.
package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/lag"
)

// Admin is a client of the AdminService of one server.
type Admin struct {
	// Server is the name of the server in the output.
	Server  string
	service fanoutv1.AdminServiceClient
}

// New returns an Admin that uses the connection of c. The connection should lead to a single
// server ([client.EachServer]), except for information that is the same on all servers.
func New(server string, c *client.Client) *Admin {
	return &Admin{server, fanoutv1.NewAdminServiceClient(c.Conn())}
}

// Resources returns the resources of the server, sorted by name. With lag, the server also
// asks etcd for its revision and reports the lag behind it.
func (a *Admin) Resources(ctx context.Context, lag bool) ([]Resource, error) {
	all, err := a.listResources(ctx, lag)
	rows := make([]Resource, 0, len(all))
	for _, s := range all {
		rows = append(rows, resourceOf(a.Server, s))
	}
	return rows, err
}

// Codec returns the codec of a resource, or "" if the server does not report it.
func (a *Admin) Codec(ctx context.Context, resource string) string {
	all, err := a.listResources(ctx, false)
	if err != nil {
		return ""
	}
	for _, r := range all {
		if r.GetName() == resource {
			return r.GetCodec()
		}
	}
	return ""
}

func (a *Admin) listResources(ctx context.Context, lag bool) ([]*fanoutv1.ResourceStatus, error) {
	resp, err := a.service.ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: lag})
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", client.ErrorOf(err))
	}
	return resp.GetResources(), nil
}

// WatcherList is a list of watchers of one or several servers.
type WatcherList struct {
	Watchers []Watcher // possibly truncated
	Total    int64     // the number of all watchers
	Failing  int64     // the number of those whose last report has an error
}

// MaxByLag is the maximum number of watchers in a list that is sorted by lag.
const MaxByLag = 1000

// Watchers returns the watchers of a resource, or of all resources if the name is empty.
// With byLag it returns up to [MaxByLag] watchers, furthest behind first, and otherwise all
// watchers in the order in which they started. With failing it returns only those whose last
// report has an error.
func (a *Admin) Watchers(ctx context.Context, resource string, byLag, failing bool) (WatcherList, error) {
	req := &fanoutv1.ListWatchersRequest{Resource: resource, Failing: failing}
	if byLag {
		req.Order = fanoutv1.ListWatchersRequest_ORDER_LAG
	}
	var list WatcherList
	for {
		resp, err := a.service.ListWatchers(ctx, req)
		if err != nil {
			return WatcherList{}, fmt.Errorf("list watchers: %w", client.ErrorOf(err))
		}
		for _, s := range resp.GetWatchers() {
			list.Watchers = append(list.Watchers, watcherOf(a.Server, s))
		}
		if resp.GetNextPageToken() == "" {
			list.Total, list.Failing = resp.GetTotal(), resp.GetFailing()
			if !byLag {
				list.count()
			}
			return list, nil
		}
		req.PageToken = resp.GetNextPageToken()
	}
}

// count makes the numbers agree with the watchers of several pages, which are all there are. Watches
// begin and end between two pages.
func (l *WatcherList) count() {
	l.Total, l.Failing = int64(len(l.Watchers)), 0
	for _, w := range l.Watchers {
		if w.Error != nil {
			l.Failing++
		}
	}
}

// EndWatcher ends a watch, whose client then resumes. It reports whether the server had the
// watch.
func (a *Admin) EndWatcher(ctx context.Context, id string) (ended bool, err error) {
	resp, err := a.service.EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
	if err != nil {
		return false, fmt.Errorf("end watcher %s: %w", id, client.ErrorOf(err))
	}
	return resp.GetEnded(), nil
}

// Answer is the answer of one of several servers.
type Answer[T any] struct {
	Server string
	Value  T
	Err    error
}

// Each queries all servers concurrently. The answers are in the order of the servers.
func Each[T any](ctx context.Context, servers []*Admin, request func(context.Context, *Admin) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(servers))
	var requests sync.WaitGroup
	for i, s := range servers {
		requests.Go(func() {
			value, err := request(ctx, s)
			answers[i] = Answer[T]{s.Server, value, err}
		})
	}
	requests.Wait()
	return answers
}

// MergeResources combines the resources of several servers. It sorts them by name and then
// by server, so that the rows of a resource are adjacent.
func MergeResources(answers []Answer[[]Resource]) []Resource {
	var all []Resource
	for _, a := range answers {
		all = append(all, a.Value...)
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// MergeWatchers combines the watchers of several servers in the order of [Admin.Watchers].
func MergeWatchers(answers []Answer[WatcherList], byLag bool) WatcherList {
	var all WatcherList
	for _, a := range answers {
		all.Watchers = append(all.Watchers, a.Value.Watchers...)
		all.Total += a.Value.Total
		all.Failing += a.Value.Failing
	}
	slices.SortStableFunc(all.Watchers, func(a, b Watcher) int {
		if byLag {
			if c := a.lag().Compare(b.lag()); c != 0 {
				return c
			}
		}
		return a.Since.Compare(b.Since)
	})
	if byLag {
		all.Watchers = all.Watchers[:min(len(all.Watchers), MaxByLag)]
	}
	return all
}

// lag returns how far the watcher is behind.
func (w Watcher) lag() lag.Lag {
	l := lag.Lag{Blocked: w.Blocked, NoPosition: w.hasNothing(), IsMinimum: w.LagIsMin}
	if w.Lag != nil {
		l.Seconds = *w.Lag
	}
	return l
}

// IsBehind reports whether something waits for the watcher. A lag that is known only as a
// minimum may be shown as 0.
func (w Watcher) IsBehind() bool {
	return w.hasNothing() || w.LagIsMin || w.Lag != nil && *w.Lag > 0
}

// hasNothing reports whether the watcher has no position yet, because it has not received
// the initial state.
func (w Watcher) hasNothing() bool { return w.Position != nil && w.Position.Revision == 0 }
