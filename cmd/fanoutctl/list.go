package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func listCommand(t *tool) *cobra.Command {
	var (
		format   output.Format
		revision int64
		stale    bool
		limit    int
		s        selection
	)
	cmd := &cobra.Command{
		Use:     "list RESOURCE [PATH]",
		Aliases: []string{"ls"},
		Short:   "List objects, all of them or those below a path",
		Long: `List the objects of a resource, or those below a path, in order of their keys and as
they were at one revision. "shop" has shop/limits below it, but not shop itself.`,
		Example: `  fanoutctl list config shop
  fanoutctl list config -l env=prod -o wide
  fanoutctl list config -o jsonl | jq -r 'select(.value.rps > 100).key'`,
		Args:              arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: t.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			s.below(args)
			opts := s.forList()
			switch {
			case revision != 0 && stale:
				return usagef("--revision and --any do not go together")
			case revision != 0:
				opts = append(opts, client.AtRevision(revision))
			case stale:
				opts = append(opts, client.AllowStale())
			}
			if limit < 0 {
				return usagef("--limit: must not be negative")
			}
			if limit > 0 && limit <= 10000 {
				opts = append(opts, client.PageSize(limit))
			}
			ctx, cancel := t.within(cmd.Context(), 0)
			defer cancel()
			shown := output.NewObjects(t.writer(format), format, t.width())
			n := 0
			for o, err := range r.List(ctx, opts...) {
				if err != nil {
					return err
				}
				if err := shown.Add(o); err != nil {
					return err
				}
				if n++; n == limit {
					break
				}
			}
			if n == 0 && (format == output.Table || format == output.Wide) {
				fmt.Fprintf(t.stderr, "There are no objects in %s%s.\n", args[0], &s)
			}
			return shown.Close()
		},
	}
	formatFlag(cmd, &format, output.Table)
	s.bind(cmd)
	cmd.Flags().Int64Var(&revision, "revision", 0, "the objects as they were at this `revision`")
	cmd.Flags().BoolVar(&stale, "any", false, "whatever the server holds, without asking etcd; works while etcd is away")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after this `number` of objects")
	return cmd
}
