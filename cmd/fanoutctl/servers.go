package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/top"
)

// servers returns the administration of each server: each knows its own watches only.
func (t *tool) servers(ctx context.Context) ([]*admin.Admin, error) {
	opts, err := t.options()
	if err != nil {
		return nil, err
	}
	within, cancel := t.withTimeout(ctx, usual) // DNS may be asked
	defer cancel()
	servers, err := client.EachServer(within, t.settings.Server, opts...)
	if err != nil {
		return nil, usageError{err}
	}
	var all []*admin.Admin
	for _, s := range servers {
		t.connections = append(t.connections, s.Client)
		all = append(all, admin.New(s.Address, s.Client))
	}
	return all, nil
}

// impatient is how long one of several servers may take to answer.
const impatient = 10 * time.Second

// serverError is what one of several servers has answered.
type serverError struct {
	server string
	error
}

func (e serverError) Unwrap() error { return e.error }

// ask asks all servers at once. Those of several that failed, because they do not answer
// or because they refuse, are reported, and the error says how many they are. If all
// failed, no answers are returned.
func ask[T any](ctx context.Context, t *tool, servers []*admin.Admin, what func(context.Context, *admin.Admin) (T, error)) ([]admin.Answer[T], error) {
	usually := usual
	if len(servers) > 1 {
		usually = impatient
	}
	within, cancel := t.withTimeout(ctx, usually)
	defer cancel()
	answers := admin.Each(within, servers, what)
	var failed error
	failures := 0
	for _, a := range answers {
		if a.Err == nil {
			continue
		}
		if failures++; failures == 1 {
			failed = a.Err
		}
		if len(servers) > 1 && context.Cause(ctx) == nil {
			fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explainServer(ctx, a.Server, a.Err))
		}
	}
	switch {
	case failures == 0:
		return answers, nil
	case len(servers) == 1 || context.Cause(ctx) != nil:
		return nil, failed
	case failures == len(servers):
		return nil, exitError{code: exitCode(ctx, failed)}
	}
	return answers, exitError{exitPartial, fmt.Errorf("%d of %d servers failed", failures, len(servers))}
}

// explainServer says on one line which server failed, and why.
func (t *tool) explainServer(ctx context.Context, server string, err error) string {
	err = serverError{server, err}
	text := t.explain(exitCode(ctx, err), err)
	if strings.Contains(text, server) {
		return text
	}
	return server + ": " + text
}

// end ends a watch at the server that has it.
func (t *tool) end(ctx context.Context, id string) error {
	servers, err := t.servers(ctx)
	if err != nil {
		return err
	}
	answers, err := ask(ctx, t, servers, func(ctx context.Context, a *admin.Admin) (bool, error) { return a.End(ctx, id) })
	for _, a := range answers {
		if a.Value {
			return nil // whoever failed has not had it
		}
	}
	switch partial, ok := errors.AsType[exitError](err); {
	case ok && partial.code == exitPartial:
		return exitError{exitPartial, fmt.Errorf("%w; the watcher %q %w at the others", err, id, errNotThere)}
	case err != nil:
		return err
	}
	return fmt.Errorf("the watcher %q %w at %s; \"fanoutctl watchers\" shows those there are, --server chooses another server", id, errNotThere, t.settings.Server)
}

func resourcesCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "resources",
		Short: "Show the resources of the servers and how they do",
		Long: `Show the resources of the server: whether they are served, how far they are behind
etcd, how many objects and watches they have. Of several servers each is asked, and each
resource is shown as often as there are servers, which are in a column; the exit code is
8 if one of them failed.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			servers, err := t.servers(cmd.Context())
			if err != nil {
				return err
			}
			answers, missing := ask(cmd.Context(), t, servers, func(ctx context.Context, a *admin.Admin) ([]admin.Resource, error) {
				return a.Resources(ctx, true)
			})
			if answers == nil {
				return missing
			}
			rows := admin.MergeResources(answers)
			if format == output.Key {
				rows = slices.CompactFunc(rows, func(a, b admin.Resource) bool { return a.Name == b.Name })
			}
			columns, cells := admin.ResourceTable(len(servers) > 1)
			return errors.Join(output.Records(t.writer(format), format, t.width(), columns, rows, cells), missing)
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}

func watchersCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		all    bool
	)
	cmd := &cobra.Command{
		Use:   "watchers [RESOURCE]",
		Short: "Show who watches, those that are furthest behind first",
		Long: `Show the watches of the servers: those that are furthest behind first, and no more than
1000 of them, or with --all all of them in the order in which they began. "blocked" is
a client that does not read. Of several servers each is asked; the exit code is 8 if one
of them failed.`,
		Args:              arguments(cobra.MaximumNArgs(1)),
		ValidArgsFunction: t.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			resource := ""
			if len(args) > 0 {
				resource = args[0]
			}
			servers, err := t.servers(cmd.Context())
			if err != nil {
				return err
			}
			answers, missing := ask(cmd.Context(), t, servers, func(ctx context.Context, a *admin.Admin) (admin.Watching, error) {
				return a.Watchers(ctx, resource, !all)
			})
			if answers == nil {
				return missing
			}
			watching := admin.MergeWatchers(answers, !all)
			rows := watching.Watchers
			if format == output.Table && int64(len(rows)) < watching.Total {
				fmt.Fprintf(t.stderr, "These are %d of %d; --all shows all of them.\n", len(rows), watching.Total)
			}
			if format == output.Table && watching.Total == 0 {
				fmt.Fprintln(t.stderr, "Nobody watches.")
			}
			columns, cells := admin.WatcherTable(len(servers) > 1)
			return errors.Join(output.Records(t.writer(format), format, t.width(), columns, rows, cells), missing)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&all, "all", false, "all of them, in the order in which they began")
	cmd.AddCommand(&cobra.Command{
		Use:   "end ID",
		Short: "End a watch; its client resumes, here or at another server",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE:  func(cmd *cobra.Command, args []string) error { return t.end(cmd.Context(), args[0]) },
	})
	return cmd
}

func topCommand(t *tool) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch resources and watchers, those that are furthest behind first",
		Long: `Show the resources of the server and its watches, those that are furthest behind
first, again and again. Of several servers each is asked. Ends with q, Esc or Ctrl-C.
Where standard output is no terminal it shows them once.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond {
				return usagef("--interval: must be at least 100ms")
			}
			ctx := cmd.Context()
			servers, err := t.servers(ctx)
			if err != nil {
				return err
			}
			if !isTerminal(t.stdout) || !isTerminal(t.in) {
				answers, missing := ask(ctx, t, servers, top.Ask)
				if answers == nil {
					return missing
				}
				_, err := fmt.Fprint(t.plain, top.Screen(answers).View(0, 0))
				return errors.Join(err, missing)
			}
			p := top.Program{
				Servers: servers, Interval: interval,
				Explain: func(server string, err error) string { return t.explainServer(ctx, server, err) },
			}
			ctx, cancel := t.withTimeout(ctx, 0)
			defer cancel()
			return p.Run(ctx)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how `often` it looks")
	return cmd
}
