package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/cluster"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// changeTimeout is the default timeout of a change of the members. etcd makes one only when the members have been
// connected for five seconds.
const changeTimeout = time.Minute

func clusterCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show and change the members of a cluster, and take snapshots",
		Long: `Show and change the members of the cluster that the servers form (setting "cluster"), and take
snapshots. Every server answers for all of them.

Commands that would leave the cluster without a majority of members that work are refused.

There is no command to add a member: a server with an empty data directory joins by itself, once it
is in "cluster.members" of all servers.

If the server has a policy, the right "admin" to all resources ("*") is needed. A server with an
external etcd has no members: use etcdctl.`,
		Args: cobra.ArbitraryArgs,
		RunE: subcommandNeeded,
	}
	cmd.AddCommand(clusterStatusCommand(t), clusterReplaceCommand(t), clusterRemoveCommand(t), clusterUpdateCommand(t),
		clusterMoveLeaderCommand(t), clusterSnapshotCommand(t), clusterDefragCommand(t), clusterDisarmCommand(t))
	return cmd
}

// members returns a client of the cluster.
func (t *tool) members() *cluster.Client { return cluster.New(t.client) }

func clusterStatusCommand(t *tool) *cobra.Command {
	var (
		format   output.Format
		waitSafe bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the members, and which of them may fail",
		Long: `Show the members of the cluster: who leads, how many entries each is behind, sizes, versions,
how long certificates are valid, and alarms.

MAY FAIL says whether the cluster works without this member now. With --wait-safe, the command
returns once the cluster works without any one of its members: use it between two steps of a
rolling restart.`,
		Example: `  # Show the members
  fanoutctl cluster status

  # Wait until the next server may be restarted
  fanoutctl cluster status --wait-safe --timeout 10m`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := t.clusterState(cmd.Context(), waitSafe)
			if err != nil {
				return err
			}
			return t.printState(format, state)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&waitSafe, "wait-safe", false, "wait until the cluster works without any one of its members")
	return cmd
}

// clusterState returns the state of the cluster, with waitSafe once it is safe.
func (t *tool) clusterState(ctx context.Context, waitSafe bool) (cluster.State, error) {
	if !waitSafe {
		ctx, cancel := t.withTimeout(ctx, requestTimeout)
		defer cancel()
		return t.members().State(ctx)
	}
	ctx, cancel := t.withTimeout(ctx, 0)
	defer cancel()
	say := func(problem string) { fmt.Fprintf(t.stderr, "Waiting: %s.\n", problem) }
	passes := func(err error) bool {
		code := exitCode(ctx, err)
		return code == exitUnavailable || code == exitTimeout
	}
	return t.members().AwaitSafe(ctx, say, passes)
}

// printState prints the state of a cluster. A table is followed by a summary on standard error.
func (t *tool) printState(format output.Format, state cluster.State) error {
	if format.IsRecord() {
		return t.printer(format).Record(state)
	}
	err := output.Records(t.printer(format), cluster.Columns(format == output.Wide), state.Members)
	if format == output.Table || format == output.Wide {
		err = errors.Join(err, t.out.Flush())
		fmt.Fprintln(t.stderr, stateSummary(state))
	}
	return err
}

func stateSummary(s cluster.State) string {
	if s.Safe {
		return "The cluster works without any one of its members."
	}
	return fmt.Sprintf("One more failure may stop the cluster: %s.", s.Problem)
}
