package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/top"
)

func topCommand(t *tool) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch resources and watchers, those that are furthest behind first",
		Long: `Show the resources of the server and its watches, those that are furthest behind
first, again and again. Of several servers it is the first that can be reached. Ends
with q or Ctrl-C. Where standard output is no terminal it
shows them once.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond {
				return usagef("--interval: must be at least 100ms")
			}
			a, err := t.admin()
			if err != nil {
				return err
			}
			source := top.Source{Admin: a, Server: t.settings.Server, Answered: t.server}
			ctx := cmd.Context()
			source.Explain = func(err error) string { return t.explain(exitCode(ctx, err), err) }
			if !isTerminal(t.stdout) || !isTerminal(t.in) {
				once, cancel := t.within(ctx, usual)
				defer cancel()
				screen, err := source.Look(once)
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(t.plain, screen.View(0, 0))
				return err
			}
			return top.Run(ctx, source, interval, t.in, t.stdout)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how `often` it looks")
	return cmd
}
