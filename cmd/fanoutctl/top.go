package main

import (
	"errors"
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
			ctx, cancel := t.within(ctx, 0)
			defer cancel()
			return p.Run(ctx)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how `often` it looks")
	return cmd
}
