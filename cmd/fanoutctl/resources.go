package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

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
