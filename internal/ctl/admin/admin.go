// Package admin asks a server for what its operators want to know: how its resources
// do, and who watches them.
package admin

import (
	"context"
	"fmt"

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
