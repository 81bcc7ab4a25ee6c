package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// Limits of a shell completion, while the user waits.
const (
	completionTimeout = 2 * time.Second
	completionObjects = 1000
)

const noFileCompletion = cobra.ShellCompDirectiveNoFileComp

// completeResources completes the first argument, a resource.
func (t *tool) completeResources(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFileCompletion
	}
	c, err := t.client()
	if err != nil {
		return nil, noFileCompletion
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	all, err := admin.New(t.settings.Server, c).Resources(ctx, false)
	if err != nil {
		return nil, noFileCompletion
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names, noFileCompletion
}

// completeKeys completes a resource followed by up to n keys, or any number if n is -1. Keys
// are completed segment by segment, like file names.
func (t *tool) completeKeys(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return t.completeResources(cmd, args, toComplete)
		case n >= 0 && len(args) > n:
			return nil, cobra.ShellCompDirectiveDefault
		}
		segments := t.segments(cmd.Context(), args[0], toComplete)
		directive := noFileCompletion
		if len(segments) == 1 && strings.HasSuffix(segments[0], "/") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return segments, directive
	}
}

// completePaths completes a resource followed by a path.
func (t *tool) completePaths(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return t.completeResources(cmd, args, toComplete)
	}
	if len(args) > 1 {
		return nil, noFileCompletion
	}
	var paths []string
	for _, s := range t.segments(cmd.Context(), args[0], toComplete) {
		if strings.HasSuffix(s, "/") {
			paths = append(paths, s)
		}
	}
	return paths, noFileCompletion | cobra.ShellCompDirectiveNoSpace
}

// completeSource completes a resource followed by a file name.
func (t *tool) completeSource(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return t.completeResources(cmd, args, toComplete)
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeWatchers completes the id of a watch.
func (t *tool) completeWatchers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFileCompletion
	}
	servers, err := t.servers(cmd.Context())
	if err != nil {
		return nil, noFileCompletion
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	var ids []string
	for _, a := range admin.Each(ctx, servers, func(ctx context.Context, a *admin.Admin) (admin.WatcherList, error) {
		return a.Watchers(ctx, "", true, false)
	}) {
		for _, w := range a.Value.Watchers { // none if the server has failed
			ids = append(ids, cobra.CompletionWithDesc(w.ID, cmp.Or(w.Instance, w.Peer)))
		}
	}
	return ids, noFileCompletion
}

// completeContexts completes the name of a context.
func (t *tool) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return nil, noFileCompletion
	}
	return file.names(), noFileCompletion
}

// segments returns the keys that begin with typed, each cut after the next slash.
func (t *tool) segments(ctx context.Context, resource, typed string) []string {
	r, err := t.resource(resource)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	dir := typed[:strings.LastIndex(typed, "/")+1]
	opts := []client.ListOption{client.PageSize(completionObjects), client.StartKey(typed), client.AllowStale()}
	if dir != "" {
		opts = append(opts, client.Prefix(strings.TrimSuffix(dir, "/")))
	}
	page, err := r.ListPage(ctx, opts...)
	if err != nil {
		return nil
	}
	var segments []string
	for _, o := range page.Objects {
		rest, ok := strings.CutPrefix(o.Key, typed)
		if !ok {
			break // keys are sorted
		}
		segment := o.Key
		if i := strings.Index(rest, "/"); i >= 0 {
			segment = typed + rest[:i+1]
		}
		if len(segments) == 0 || segments[len(segments)-1] != segment {
			segments = append(segments, segment)
		}
	}
	return segments
}
