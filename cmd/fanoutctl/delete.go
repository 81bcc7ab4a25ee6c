package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
)

func deleteCommand(t *tool) *cobra.Command {
	var (
		c      conditions
		ignore bool
	)
	cmd := &cobra.Command{
		Use:     "delete RESOURCE KEY...",
		Aliases: []string{"rm"},
		Short:   "Delete objects",
		Long: `Delete objects, each at a revision of its own, and print these. If one of them does
not exist, the others are deleted all the same, and the exit code is 3.`,
		Example: `  fanoutctl delete config shop/limits
  fanoutctl list config old -o key | xargs -r fanoutctl delete config`,
		Args:              arguments(cobra.MinimumNArgs(2)),
		ValidArgsFunction: t.completeKeys(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			precondition, err := c.precondition(cmd)
			if err != nil {
				return err
			}
			if precondition != nil && len(args) > 2 {
				return usagef("--if-revision is for one object")
			}
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			all, cancel := t.within(cmd.Context(), 0)
			defer cancel()
			var opts []client.DeleteOption
			if precondition != nil {
				opts = append(opts, precondition)
			}
			var missing error
			for _, key := range args[1:] {
				// The usual time is for each of them, --timeout for all.
				ctx, cancel := t.within(all, usual)
				revision, deleted, err := r.Delete(ctx, key, opts...)
				cancel()
				switch {
				case err != nil:
					return err
				case deleted:
					fmt.Fprintln(t.out, revision)
				case !ignore && missing == nil:
					missing = fmt.Errorf("the object %q %w in %s (at revision %d); --ignore-not-found is content with that", key, errNotThere, args[0], revision)
				}
			}
			return missing
		},
	}
	c.bind(cmd)
	cmd.Flags().BoolVar(&ignore, "ignore-not-found", false, "objects that do not exist are no error")
	return cmd
}
