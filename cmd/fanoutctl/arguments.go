package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// The usage line of a command names its arguments, such as "list RESOURCE [PATH]". The check and the
// completion of the arguments follow it.

// argumentsOf returns the names of the arguments, and how many of them a command needs. A last name with dots
// can be repeated. Alternatives after a bar do not count.
func argumentsOf(cmd *cobra.Command) (names []string, needed int) {
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if name == "|" {
			break
		}
		optional := strings.HasPrefix(name, "[")
		if !optional {
			needed++
		}
		if names = append(names, strings.Trim(name, "[]")); optional {
			break
		}
	}
	return names, needed
}

// checkArguments returns a usage error that names what is missing or too much.
func checkArguments(cmd *cobra.Command, args []string) error {
	names, needed := argumentsOf(cmd)
	switch repeated := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "..."); {
	case len(args) < needed:
		problem := "missing " + strings.Join(names[len(args):needed], " and ")
		if len(args) > 0 && names[len(args)] == "KEY" {
			problem += "; " + missingKeyHint(cmd, args[0])
		}
		return usagef("%s; usage: %s", problem, cmd.UseLine())
	case len(args) > len(names) && !repeated:
		return usagef("unexpected argument %q; usage: %s", args[len(names)], cmd.UseLine())
	}
	return nil
}

// missingKeyHint returns what to run if a resource, but no key, is given.
func missingKeyHint(cmd *cobra.Command, resource string) string {
	if name, key, both := strings.Cut(resource, "/"); both && key != "" {
		return fmt.Sprintf(`a resource and a key are two arguments: run "%s %s %s"`, cmd.CommandPath(), name, key)
	}
	return fmt.Sprintf(`to see the keys, run "fanoutctl list %s"`, resource)
}

// Limits of a shell completion, while the user waits.
const (
	completionTimeout = 2 * time.Second
	completionObjects = 1000
)

const noFileCompletion = cobra.ShellCompDirectiveNoFileComp

// complete completes an argument by its name in the usage line.
func (t *tool) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, _ := argumentsOf(cmd)
	i := min(len(args), len(names)-1)
	if i < 0 || i < len(args) && !strings.HasSuffix(names[i], "...") {
		return nil, noFileCompletion
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	switch names[i] {
	case "NAME":
		return t.completeContexts()
	case "ADDRESS":
		return nil, noFileCompletion
	case "VALUE", "SOURCE", "FILE", "FILE...", "TARGET":
		return nil, cobra.ShellCompDirectiveDefault
	}
	if t.connect() != nil {
		return nil, noFileCompletion
	}
	switch names[i] {
	case "RESOURCE":
		return t.completeResources(ctx), noFileCompletion
	case "MEMBER":
		return t.completeMembers(ctx), noFileCompletion
	case "ID":
		return t.completeWatchers(ctx), noFileCompletion
	}
	// Keys are completed segment by segment, like file names.
	segments := t.segments(ctx, args[0], typed)
	isPath := func(segment string) bool { return strings.HasSuffix(segment, "/") }
	if names[i] == "PATH" {
		segments = slices.DeleteFunc(segments, func(segment string) bool { return !isPath(segment) })
		return segments, noFileCompletion | cobra.ShellCompDirectiveNoSpace
	}
	if len(segments) == 1 && isPath(segments[0]) {
		return segments, noFileCompletion | cobra.ShellCompDirectiveNoSpace
	}
	return segments, noFileCompletion
}

func (t *tool) completeResources(ctx context.Context) (names []string) {
	all, err := admin.New(t.settings.Server, t.client).Resources(ctx, false)
	if err != nil {
		return nil
	}
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

func (t *tool) completeWatchers(ctx context.Context) (ids []string) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil
	}
	for _, a := range admin.Each(ctx, servers, func(ctx context.Context, a *admin.Admin) (admin.WatcherList, error) {
		return a.Watchers(ctx, "", true, false)
	}) {
		for _, w := range a.Value.Watchers { // none if the server has failed
			ids = append(ids, cobra.CompletionWithDesc(w.ID, cmp.Or(w.Instance, w.Peer)))
		}
	}
	return ids
}

func (t *tool) completeContexts() ([]string, cobra.ShellCompDirective) {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return nil, noFileCompletion
	}
	return file.names(), noFileCompletion
}

// segments returns the keys that begin with typed, each cut after the next slash.
func (t *tool) segments(ctx context.Context, resource, typed string) []string {
	dir := typed[:strings.LastIndex(typed, "/")+1]
	opts := []client.ListOption{client.PageSize(completionObjects), client.StartKey(typed), client.AllowStale()}
	if dir != "" {
		opts = append(opts, client.Prefix(strings.TrimSuffix(dir, "/")))
	}
	page, err := t.client.Resource(resource).ListPage(ctx, opts...)
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

func (t *tool) completeMembers(ctx context.Context) (names []string) {
	state, err := t.members().State(ctx)
	if err != nil {
		return nil
	}
	for _, m := range state.Members {
		names = append(names, m.Label())
	}
	return names
}
