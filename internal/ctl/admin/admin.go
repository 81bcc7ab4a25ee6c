// Package admin asks a server for what its operators want to know: how its resources
// do, and who watches them.
package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Admin is the administration of a server.
type Admin struct {
	// Server is what the server is called in what is told of it.
	Server  string
	service fanoutv1.AdminServiceClient
}

// New returns that of a client. Each server speaks of itself alone, so the client
// should not take turns over several ([client.EachServer]); only for what is the same at
// all of them that does no harm.
func New(server string, c *client.Client) *Admin {
	return &Admin{server, fanoutv1.NewAdminServiceClient(c.Conn())}
}

func (a *Admin) resources(ctx context.Context, lag bool) ([]*fanoutv1.ResourceStatus, error) {
	resp, err := a.service.ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: lag})
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", client.ErrorOf(err))
	}
	return resp.GetResources(), nil
}

// Codec returns the codec of a resource; empty if the server does not say.
func (a *Admin) Codec(ctx context.Context, resource string) string {
	all, err := a.resources(ctx, false)
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

func (a *Admin) watchers(ctx context.Context, req *fanoutv1.ListWatchersRequest) (watchers []*fanoutv1.WatcherStatus, total int64, err error) {
	for {
		resp, err := a.service.ListWatchers(ctx, req)
		if err != nil {
			return nil, 0, fmt.Errorf("list watchers: %w", client.ErrorOf(err))
		}
		watchers = append(watchers, resp.GetWatchers()...)
		if resp.GetNextPageToken() == "" {
			return watchers, resp.GetTotal(), nil
		}
		req.PageToken = resp.GetNextPageToken()
	}
}

// End ends a watch, whose client then resumes, and reports whether the server has it.
func (a *Admin) End(ctx context.Context, id string) (ended bool, err error) {
	resp, err := a.service.EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
	if err != nil {
		return false, fmt.Errorf("end watcher %s: %w", id, client.ErrorOf(err))
	}
	return resp.GetEnded(), nil
}

// Most is how many watches are told in order of their lag.
const Most = 1000

// Answer is what one of several servers has said.
type Answer[T any] struct {
	Server string
	Value  T
	Err    error
}

// Each asks all servers at once. The answers are in the order of the servers.
func Each[T any](ctx context.Context, servers []*Admin, ask func(context.Context, *Admin) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() {
			value, err := ask(ctx, s)
			answers[i] = Answer[T]{s.Server, value, err}
		})
	}
	asking.Wait()
	return answers
}

// Watching is who watches at a server, or at several.
type Watching struct {
	Watchers []Watcher // some or all of them
	Total    int64     // how many there are
}

// Resources returns all resources of the server in order of their names. With lag they
// say how far behind etcd they are, which takes as long as etcd does.
func (a *Admin) Resources(ctx context.Context, lag bool) ([]Resource, error) {
	all, err := a.resources(ctx, lag)
	rows := make([]Resource, 0, len(all))
	for _, s := range all {
		rows = append(rows, resourceOf(a.Server, s))
	}
	return rows, err
}

// Watchers returns the watches of a resource at the server, or of all with the empty
// name: those furthest behind first, of which there are at most [Most], or all of them
// in the order in which they began.
func (a *Admin) Watchers(ctx context.Context, resource string, byLag bool) (Watching, error) {
	req := &fanoutv1.ListWatchersRequest{Resource: resource}
	if byLag {
		req.Order = fanoutv1.ListWatchersRequest_ORDER_LAG
	}
	all, total, err := a.watchers(ctx, req)
	w := Watching{Total: total}
	for _, s := range all {
		w.Watchers = append(w.Watchers, watcherOf(a.Server, s))
	}
	return w, err
}

// MergeResources puts those of several servers together, so that each resource can be
// compared with itself elsewhere: by name, and then in the order of the servers.
func MergeResources(answers []Answer[[]Resource]) []Resource {
	var all []Resource
	for _, a := range answers {
		all = append(all, a.Value...)
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// MergeWatchers puts those of several servers together, in the order in which each of
// them tells its own.
func MergeWatchers(answers []Answer[Watching], byLag bool) Watching {
	var all Watching
	for _, a := range answers {
		all.Watchers = append(all.Watchers, a.Value.Watchers...)
		all.Total += a.Value.Total
	}
	slices.SortStableFunc(all.Watchers, func(a, b Watcher) int {
		if byLag {
			if c := cmp.Compare(b.lag(), a.lag()); c != 0 {
				return c
			}
		}
		return a.Since.Compare(b.Since)
	})
	if byLag {
		all.Watchers = all.Watchers[:min(len(all.Watchers), Most)]
	}
	return all
}

// lag returns for how many seconds the watcher has been behind, as servers take it: for
// ever where it has everything still to come, and 0 where that is not known.
func (w Watcher) lag() float64 {
	switch {
	case w.nowhere():
		return math.Inf(1)
	case w.Lag == nil:
		return 0
	}
	return *w.Lag
}

// nowhere reports whether the watcher has no position, because it has everything still
// to come.
func (w Watcher) nowhere() bool { return w.Position != nil && w.Position.Revision == 0 }
