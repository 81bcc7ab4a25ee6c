package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func resourcesCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "resources",
		Short: "Show the resources of the server and how they do",
		Long: `Show the resources of the server: whether they are served, how far they are behind
etcd, how many objects and watches they have. Of several servers it is the first that
can be reached.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := t.admin()
			if err != nil {
				return err
			}
			ctx, cancel := t.within(cmd.Context(), usual)
			defer cancel()
			all, err := a.Resources(ctx, true)
			if err != nil {
				return err
			}
			if format == output.Table {
				t.which()
			}
			var rows []admin.Resource
			for _, r := range all {
				rows = append(rows, admin.ResourceOf(r))
			}
			return output.Records(t.writer(format), format, t.width(), admin.ResourceColumns(), rows, admin.Resource.Cells)
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
		Long: `Show the watches of the server: those that are furthest behind first, and no more than
1000 of them, or with --all all of them in the order in which they began. "blocked" is
a client that does not read. Each server knows its own watches only: of several it is
the first that can be reached.`,
		Args:              arguments(cobra.MaximumNArgs(1)),
		ValidArgsFunction: t.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			resource := ""
			if len(args) > 0 {
				resource = args[0]
			}
			a, err := t.admin()
			if err != nil {
				return err
			}
			ctx, cancel := t.within(cmd.Context(), usual)
			defer cancel()
			watchers, total, err := a.Watchers(ctx, resource, !all)
			if err != nil {
				return err
			}
			if format == output.Table {
				t.which()
			}
			var rows []admin.Watcher
			for _, w := range watchers {
				rows = append(rows, admin.WatcherOf(w))
			}
			if format == output.Table && int64(len(rows)) < total {
				fmt.Fprintf(t.stderr, "These are %d of %d; --all shows all of them.\n", len(rows), total)
			}
			if format == output.Table && total == 0 {
				fmt.Fprintln(t.stderr, "Nobody watches.")
			}
			return output.Records(t.writer(format), format, t.width(), admin.WatcherColumns(), rows, admin.Watcher.Cells)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&all, "all", false, "all of them, in the order in which they began")
	cmd.AddCommand(&cobra.Command{
		Use:   "end ID",
		Short: "End a watch; its client resumes, here or at another server",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := t.admin()
			if err != nil {
				return err
			}
			ctx, cancel := t.within(cmd.Context(), usual)
			defer cancel()
			ended, err := a.End(ctx, args[0])
			if err == nil && !ended {
				err = fmt.Errorf("the watcher %q %w on this server (%s); \"fanoutctl watchers\" shows those there are, --server chooses another server", args[0], errNotThere, t.server())
			}
			return err
		},
	})
	return cmd
}
