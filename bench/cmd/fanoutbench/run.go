package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func runCommand() *cobra.Command {
	var p scenario.Parameters
	var b binaries
	var o scenario.Observer
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure one case",
		Long: `Measure one case, and print the record as a line of JSON.

  saturation  write as fast as events are delivered: --outstanding writes are in flight,
              and each is complete when all watchers have its events; with one write of
              one event in flight, each event is a message of its own
  steady      write at a rate
  startup     all watchers connect at once and get the state of all keys
  resume      all watchers reconnect at once and get a change of each key
  lists       all watchers list all keys at once
  open        all watches are opened at once, on connections that exist
  calls       unary calls as fast as they are answered: --outstanding are in flight on
              --connections
  state       write --keys objects, then start the server again

Those of a cluster of three members:

  cluster-load     write at a rate, or not at all, with --watchers spread over all members
  cluster-fan-out  the same, but write as fast as events are delivered; count elections
  cluster-kill     write at a rate, with --watchers at one member, for --duration before and after
                   each of --kills of another member
  cluster-outage   --outstanding writers go on while a member is killed --kills times

  idle        write nothing except one event at the end`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := b.programs(cmd.Context())
			if err != nil {
				return err
			}
			defer b.remove()
			o.Phase = func(phase string) { fmt.Fprintln(cmd.ErrOrStderr(), phase) }
			record, err := scenario.Run(cmd.Context(), programs, p, o)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(record)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Scenario, "scenario", scenario.Saturation, fmt.Sprintf("scenario: %v", scenario.Scenarios))
	flags.StringVar(&p.Peer, "peer", "fanoutd", fmt.Sprintf("system to measure: %v", peer.Names()))
	flags.StringVar(&p.Client, "client", load.ClientRaw, fmt.Sprintf("client that watches: %v", load.Clients))
	flags.IntVar(&p.Watchers, "watchers", 1000, "number of watches")
	flags.IntVar(&p.PerConnection, "per-connection", 1, "watches per connection")
	flags.IntVar(&p.PerStream, "per-stream", 0, "watches per stream (fanoutd: of Subscribe; nats: per connection); 0: each watch has a stream of its own (fanoutd: of Watch)")
	flags.StringVar(&p.Interest, "interest", load.InterestAll, fmt.Sprintf("objects that each watcher watches: %v", load.Interests))
	flags.IntVar(&p.Groups, "groups", 10, "distinct labels with --interest label, or filters with --interest except")
	flags.IntVar(&p.Bystanders, "bystanders", 0, "additional watches of objects that never change")
	flags.StringVar(&p.Bystand, "bystand", load.BystandKey, fmt.Sprintf("objects that the bystanders watch: %v", load.Bystands))
	flags.IntVar(&p.Keys, "keys", 64, "keys to write")
	flags.IntVar(&p.Objects, "objects", 0, "additional objects that never change")
	flags.IntVar(&p.Window, "window", 0, "size of fanoutd's window in changes, filled first; 0: the default, not filled")
	flags.IntVar(&p.ValueSize, "value-size", 256, "bytes per value")
	flags.IntVar(&p.Batch, "batch", 1, "events per write")
	flags.IntVar(&p.Outstanding, "outstanding", 1, "concurrent writes or calls")
	flags.StringVar(&p.Method, "method", "", fmt.Sprintf("what to call with --scenario calls: %q", calls.Methods))
	flags.IntVar(&p.Connections, "connections", 0, "connections for the calls; 0: 8, or as many as there are calls at once")
	flags.BoolVar(&p.DefaultLimits, "default-limits", false, "fanoutd has its default limits; otherwise none per client")
	flags.BoolVar(&p.History, "history", false, "fanoutd keeps a history of the writes")
	flags.Float64Var(&p.Rate, "rate", 0, "writes per second with --scenario steady")
	flags.DurationVar(&p.Duration, "duration", 5*time.Second, "duration of the measurement")
	flags.IntVar(&p.Writes, "writes", 0, "writes of the measurement, instead of a duration")
	flags.BoolVar(&p.State, "state", false, "with --scenario idle and open, the watches begin with the state")
	flags.DurationVar(&p.Bookmarks, "bookmarks", 0, "bookmark interval of the watches (fanoutd); 0: none, or the default of the client")
	flags.DurationVar(&p.Reports, "reports", 0, "each watch reports its position at most this often (fanoutd with --per-stream); 0: never")
	flags.IntVar(&p.PageSize, "page-size", 0, "objects per page with --scenario lists; 0: the server decides")
	flags.IntVar(&p.Stalled, "stalled", 0, "additional watches whose client does not read")
	flags.StringVar(&p.Stall, "stall", load.StallFrozen, fmt.Sprintf("how a stalled client stalls: %v", load.Stalls))
	flags.DurationVar(&p.StallFor, "stall-for", 0, "time after which a stalled client reconnects; 0: never")
	flags.IntVar(&p.Kills, "kills", 0, "members of a cluster to kill, one after another")
	flags.StringVar(&p.Victim, "victim", "", fmt.Sprintf("which of them: %s or %s", scenario.VictimLeader, scenario.VictimFollower))
	flags.StringVar(&o.Profile, "profile", "", "file for a CPU profile of fanoutd during the measurement")
	b.flags(cmd)
	return cmd
}

// program returns the path of this program.
func program() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	return path, nil
}
