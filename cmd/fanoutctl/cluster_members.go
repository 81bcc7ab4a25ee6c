package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/cluster"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func clusterReplaceCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "replace MEMBER",
		Short: "Replace a machine that is lost, or whose data is gone",
		Long: `Take a dead member out of the cluster, so that a machine with an empty data directory can take its
place. Then start the server there: it joins by itself and copies the data.

If the new machine has another name or address, change its line in "cluster.members" on all
servers first, and restart the others one after another once the new one votes.

The command is refused if the member answers this or another server within ten seconds, or if the
others have no majority.`,
		Example: `  # node-3 is lost: run this anywhere, then start the new node-3
  fanoutctl cluster replace node-3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), changeTimeout)
			defer cancel()
			state, err := t.members().Remove(ctx, args[0], true)
			if err != nil {
				return err
			}
			fmt.Fprintf(t.stderr, "%s is not a member any more. Start the server on the new machine with an empty data directory: it joins by itself.\n%s\n",
				args[0], stateSummary(state))
			return nil
		},
	}
}

func clusterRemoveCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "remove MEMBER",
		Short: "Remove a member for good",
		Long: `Remove a member from the cluster. If it leads, another one becomes the leader first. Its server
ends with an error.

Then stop its service, and take it out of "cluster.members" of the other servers: a server that is
still there and starts with an empty data directory joins again.

The command is refused if the remaining members would have no majority that works.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), changeTimeout)
			defer cancel()
			state, err := t.members().Remove(ctx, args[0], false)
			if err != nil {
				return err
			}
			fmt.Fprintf(t.stderr, "%s is not a member any more. Stop its service, and remove it from cluster.members of the other servers.\n%s\n",
				args[0], stateSummary(state))
			return nil
		},
	}
}

func clusterUpdateCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "update MEMBER ADDRESS",
		Short: "Change the address at which the others reach a member",
		Long: `Change the address at which the other members reach a member: a host, or a host and the port for
members. Stop the server first, change its line in "cluster.members" on all servers, and start it at
the new address afterwards.`,
		Example: `  fanoutctl cluster update node-3 10.0.0.9`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), changeTimeout)
			defer cancel()
			url, err := t.members().Update(ctx, args[0], args[1])
			if err == nil {
				fmt.Fprintf(t.stderr, "The others now reach %s at %s. Change its line in cluster.members on all servers.\n", args[0], url)
			}
			return err
		},
	}
}

func clusterMoveLeaderCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "move-leader [MEMBER]",
		Short: "Make another member the leader",
		Long: `Make a member the leader; without a name, the one that has applied the most. Writes wait for less
than a second. A server that stops hands over the leadership by itself.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), requestTimeout)
			defer cancel()
			member := ""
			if len(args) > 0 {
				member = args[0]
			}
			from, to, err := t.members().MoveLeader(ctx, member)
			switch {
			case err != nil:
				return err
			case from == to:
				fmt.Fprintf(t.stderr, "%s leads already.\n", to)
			default:
				fmt.Fprintf(t.stderr, "%s leads now, after %s.\n", to, from)
			}
			return nil
		},
	}
}

func clusterDefragCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Free unused space in the databases of all members",
		Long: `Defragment the databases of all members, one after another: the leader last, while another member
leads. Each has caught up before the next one begins, or the command ends after five minutes. Writes go on; reads of the newest state at
a member wait while its database is defragmented, which takes seconds for each GiB in use.

A member that does not answer is skipped. The command is refused if the cluster would not work without
the member. To discard history first, or for a single server, use "fanoutctl reclaim".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			list := output.List[cluster.Defragmented]{
				Printer:  t.printer(format),
				Columns:  []output.Column[cluster.Defragmented]{{Cell: func(d cluster.Defragmented) string { return d.Member }}},
				Document: func(d cluster.Defragmented) any { return d },
				Array:    true,
			}
			var failed error
			done := func(d cluster.Defragmented) {
				if format == output.Table || format == output.Wide {
					fmt.Fprintf(t.stderr, "The database of %s has %s, before %s.\n", d.Member, output.Size(d.Bytes), output.Size(d.BytesBefore))
				} else if err := list.Add(d); err != nil && failed == nil {
					failed = err
				}
			}
			err := t.members().Defragment(ctx, cluster.CatchUpLimit, cluster.Steps{
				Done:    done,
				Skipped: func(member, why string) { fmt.Fprintf(t.stderr, "%s is skipped: %s.\n", member, why) },
				Waiting: func(why string) { fmt.Fprintf(t.stderr, "Waiting: %s.\n", why) },
			})
			if format != output.Table && format != output.Wide {
				if closed := list.Close(); failed == nil {
					failed = closed
				}
			}
			if err == nil {
				err = failed
			}
			return err
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}
