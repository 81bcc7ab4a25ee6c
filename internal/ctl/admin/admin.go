// Package admin asks a server for what its operators want to know: how its resources
// do, and who watches them.
package admin

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Admin is the administration of the servers of a client.
type Admin struct{ service fanoutv1.AdminServiceClient }

// New returns that of a client. Each server speaks of itself alone, so the client
// should not take turns over several.
func New(c *client.Client) *Admin { return &Admin{fanoutv1.NewAdminServiceClient(c.Conn())} }

// Resources returns all resources in order of their names. With lag they say how
// far behind etcd they are, which takes as long as etcd does.
func (a *Admin) Resources(ctx context.Context, lag bool) ([]*fanoutv1.ResourceStatus, error) {
	resp, err := a.service.ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: lag})
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", client.ErrorOf(err))
	}
	return resp.GetResources(), nil
}

// Codec returns the codec of a resource; empty if the server does not say.
func (a *Admin) Codec(ctx context.Context, resource string) string {
	all, err := a.Resources(ctx, false)
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

// Watchers returns the watches of a resource, or of all with the empty name: those
// furthest behind first, of which there are at most 1000, or all of them in the
// order in which they began. Total is how many there are.
func (a *Admin) Watchers(ctx context.Context, resource string, byLag bool) (watchers []*fanoutv1.WatcherStatus, total int64, err error) {
	req := &fanoutv1.ListWatchersRequest{Resource: resource}
	if byLag {
		req.Order = fanoutv1.ListWatchersRequest_ORDER_LAG
	}
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

// End ends a watch, whose client then resumes, and reports whether there was one.
func (a *Admin) End(ctx context.Context, id string) (ended bool, err error) {
	resp, err := a.service.EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
	if err != nil {
		return false, fmt.Errorf("end watcher %s: %w", id, client.ErrorOf(err))
	}
	return resp.GetEnded(), nil
}
