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

func resourcesCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "resources",
		Short: "Show the resources of the servers",
		Long: `Show the resources of each server: their state, their lag behind etcd, and the number of
objects and watchers.

If --server names several servers, all of them are queried and a SERVER column is added.
The exit code is 8 if some of them fail.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answers, partial := ask(cmd.Context(), t, func(ctx context.Context, a *admin.Admin) ([]admin.Resource, error) {
				return a.Resources(ctx, true)
			})
			if answers == nil {
				return partial
			}
			rows := admin.MergeResources(answers)
			if format == output.Key {
				rows = slices.CompactFunc(rows, func(a, b admin.Resource) bool { return a.Name == b.Name })
			}
			return errors.Join(output.Records(t.printer(format), admin.ResourceColumns(len(answers) > 1), rows), partial)
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}

func watchersCommand(t *tool) *cobra.Command {
	var (
		format  output.Format
		all     bool
		failing bool
	)
	cmd := &cobra.Command{
		Use:   "watchers [RESOURCE]",
		Short: "Show the watchers of the servers",
		Long: `Show the watchers of each server, up to 1000. Those with the oldest unsent events come
first. With --all, show all of them in the order in which they started. A watcher is
"blocked" if its client does not read. APPLIED is how far a subscriber that reports what it
has applied is behind, or "failed" if it has reported an error; -o wide shows the error and
the revisions. With --failing, show only those that have reported an error.

If --server names several servers, all of them are queried. The exit code is 8 if some of
them fail.`,
		Example: `  # Show the watchers of a resource
  fanoutctl watchers config

  # Show the subscribers that have reported an error, with their errors
  fanoutctl watchers --failing -o wide

  # End a watch
  fanoutctl watchers end de915cb7313a-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			resource := ""
			if len(args) > 0 {
				resource = args[0]
			}
			answers, partial := ask(cmd.Context(), t, func(ctx context.Context, a *admin.Admin) (admin.WatcherList, error) {
				return a.Watchers(ctx, resource, !all, failing)
			})
			if answers == nil {
				return partial
			}
			list := admin.MergeWatchers(answers, !all)
			rows := list.Watchers
			if format == output.Table && int64(len(rows)) < list.Total {
				fmt.Fprintf(t.stderr, "Showing %d of %d watchers; use --all to show all of them.\n", len(rows), list.Total)
			}
			if format == output.Table && list.Total == 0 {
				fmt.Fprintln(t.stderr, "No watchers found.")
			}
			columns := admin.WatcherColumns(len(answers) > 1, format == output.Wide)
			return errors.Join(output.Records(t.printer(format), columns, rows), partial)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&all, "all", false, "show all watchers, in the order in which they started")
	cmd.Flags().BoolVar(&failing, "failing", false, "show only the watchers that have reported an error")
	cmd.AddCommand(&cobra.Command{
		Use:   "end ID",
		Short: "End a watch; its client resumes on this or another server",
		RunE:  func(cmd *cobra.Command, args []string) error { return t.endWatcher(cmd.Context(), args[0]) },
	})
	return cmd
}

func topCommand(t *tool) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show resources and watchers, refreshed continuously",
		Long: `Show the resources and watchers of the servers, the watchers that are furthest behind
first, and refresh the screen continuously. Press q, Esc or Ctrl-C to quit, s to sort, / to
filter, the arrow keys to scroll, and ? for all keys. A narrow terminal shows fewer columns.

If standard output is not a terminal, print the screen once.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond {
				return usagef("--interval must be at least 100ms")
			}
			ctx := cmd.Context()
			t.fullScreen = isTerminal(t.stdout) && isTerminal(t.in)
			if !t.fullScreen {
				answers, partial := ask(ctx, t, top.TakeSnapshot)
				if answers == nil {
					return partial
				}
				fmt.Fprint(t.styled, top.Screen(answers).View(0, 0))
				return partial
			}
			servers, err := t.servers(ctx)
			if err != nil {
				return err
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
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "`duration` between refreshes (at least 100ms)")
	return cmd
}

// servers returns an admin client for each server, because a server reports only its own
// watchers.
func (t *tool) servers(ctx context.Context) ([]*admin.Admin, error) {
	servers, err := t.eachServer(ctx)
	if err != nil {
		return nil, err
	}
	var all []*admin.Admin
	for _, s := range servers {
		all = append(all, admin.New(s.Address, s.Client))
	}
	return all, nil
}

// eachServer returns a client for each server. They are closed by close.
func (t *tool) eachServer(ctx context.Context) ([]client.Server, error) {
	if t.each != nil {
		return t.each, nil
	}
	opts, err := t.options()
	if err != nil {
		return nil, err
	}
	ctx, cancel := t.withTimeout(ctx, requestTimeout) // for DNS
	defer cancel()
	if t.each, err = client.EachServer(ctx, t.settings.Server, opts...); err != nil {
		return nil, usageError{err}
	}
	return t.each, nil
}

// serverTimeout is the default timeout of a request to one of several servers.
const serverTimeout = 10 * time.Second

// serverError is the error of one of several servers.
type serverError struct {
	server string
	error
}

func (e serverError) Unwrap() error { return e.error }

// ask queries all servers concurrently. It prints the error of each server that fails. If
// some fail, it returns the answers and an error with the number of failures. If all fail,
// it returns no answers.
func ask[T any](ctx context.Context, t *tool, request func(context.Context, *admin.Admin) (T, error)) ([]admin.Answer[T], error) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	byDefault := requestTimeout
	if len(servers) > 1 {
		byDefault = serverTimeout
	}
	requestCtx, cancel := t.withTimeout(ctx, byDefault)
	defer cancel()
	answers := admin.Each(requestCtx, servers, request)
	var firstErr error
	failures := 0
	for _, a := range answers {
		if a.Err == nil {
			continue
		}
		if failures++; failures == 1 {
			firstErr = a.Err
		}
		if len(servers) > 1 && context.Cause(ctx) == nil {
			fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explainServer(ctx, a.Server, a.Err))
		}
	}
	switch {
	case failures == 0:
		return answers, nil
	case len(servers) == 1 || context.Cause(ctx) != nil:
		return nil, firstErr
	case failures == len(servers):
		return nil, exitError{code: exitCode(ctx, firstErr)}
	}
	return answers, exitError{exitPartial, fmt.Errorf("%d of %d servers failed", failures, len(servers))}
}

// explainServer returns a one-line message that names the server and the failure.
func (t *tool) explainServer(ctx context.Context, server string, err error) string {
	err = serverError{server, err}
	text := t.explain(exitCode(ctx, err), err)
	if strings.Contains(text, server) {
		return text
	}
	return server + ": " + text
}

// endWatcher ends a watch on whichever server has it.
func (t *tool) endWatcher(ctx context.Context, id string) error {
	answers, err := ask(ctx, t, func(ctx context.Context, a *admin.Admin) (bool, error) { return a.EndWatcher(ctx, id) })
	for _, a := range answers {
		if a.Value {
			return nil // the servers that failed did not have it
		}
	}
	switch partial, ok := errors.AsType[exitError](err); {
	case ok && partial.code == exitPartial:
		return exitError{exitPartial, fmt.Errorf("%w; watcher %q %w on the others", err, id, errNotFound)}
	case err != nil:
		return err
	}
	return fmt.Errorf(`watcher %q %w on %s; run "fanoutctl watchers" to list the watchers, or use --server to select another server`, id, errNotFound, t.settings.Server)
}
