package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func clusterDisarmCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "disarm",
		Short: "Clear alarms whose cause is gone",
		Long: `Clear the alarms that etcd keeps after their cause is gone: those of members that were removed, and the
alarm "corrupt" once all members have the same data, which is compared now. Until then etcd refuses
writes and reads of the newest state.

The command is refused if a member has other data, or does not answer. To clear the alarm "no-space"
of a member, use "fanoutctl reclaim".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), changeTimeout)
			defer cancel()
			cleared, state, err := t.members().Disarm(ctx)
			if err != nil {
				return err
			}
			switch cleared {
			case 0:
				fmt.Fprintln(t.stderr, "There is no alarm that can be cleared.")
			case 1:
				fmt.Fprintln(t.stderr, "One alarm was cleared.")
			default:
				fmt.Fprintf(t.stderr, "%d alarms were cleared.\n", cleared)
			}
			fmt.Fprintln(t.stderr, stateSummary(state))
			return nil
		},
	}
}
