package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// What a shell waits for while somebody has pressed Tab.
const (
	completionTime = 2 * time.Second
	completions    = 1000 // objects that are looked at
)

const nothing = cobra.ShellCompDirectiveNoFileComp

// completeResources completes the first argument.
func (t *tool) completeResources(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, nothing
	}
	c, err := t.client()
	if err != nil {
		return nil, nothing
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, err := admin.New(t.settings.Server, c).Resources(ctx, false)
	if err != nil {
		return nil, nothing
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names, nothing
}

// completeKeys completes a resource and up to n keys behind it; any number with -1.
// Keys are completed part by part, like the names of files.
func (t *tool) completeKeys(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return t.completeResources(cmd, args, begun)
		case n >= 0 && len(args) > n:
			return nil, cobra.ShellCompDirectiveDefault
		}
		parts := t.parts(cmd.Context(), args[0], begun)
		directive := nothing
		if len(parts) == 1 && strings.HasSuffix(parts[0], "/") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return parts, directive
	}
}

// completePaths completes a resource and a path below which there are objects.
func (t *tool) completePaths(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return t.completeResources(cmd, args, begun)
	}
	if len(args) > 1 {
		return nil, nothing
	}
	var paths []string
	for _, part := range t.parts(cmd.Context(), args[0], begun) {
		if strings.HasSuffix(part, "/") {
			paths = append(paths, part)
		}
	}
	return paths, nothing | cobra.ShellCompDirectiveNoSpace
}

// parts returns what keys begin with that begin with what is there: as far as the
// next slash, or to their end.
func (t *tool) parts(ctx context.Context, resource, begun string) []string {
	r, err := t.resource(resource)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	dir := begun[:strings.LastIndex(begun, "/")+1]
	opts := []client.ListOption{client.PageSize(completions), client.StartKey(begun), client.AllowStale()}
	if dir != "" {
		opts = append(opts, client.Prefix(strings.TrimSuffix(dir, "/")))
	}
	page, err := r.ListPage(ctx, opts...)
	if err != nil {
		return nil
	}
	var parts []string
	for _, o := range page.Objects {
		rest, ok := strings.CutPrefix(o.Key, begun)
		if !ok {
			break // keys are in order
		}
		part := o.Key
		if i := strings.Index(rest, "/"); i >= 0 {
			part = begun + rest[:i+1]
		}
		if len(parts) == 0 || parts[len(parts)-1] != part {
			parts = append(parts, part)
		}
	}
	return parts
}

// completeContexts completes the name of a context.
func (t *tool) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return nil, nothing
	}
	return file.names(), nothing
}
