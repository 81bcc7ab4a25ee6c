package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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
		Long: `Measure one case, and write what was measured as a line of JSON.

Saturation writes as fast as events are delivered: so many writes are outstanding,
and each is over when its events have come to all watchers. With one outstanding
write of one event, each event is a message of its own. Steady writes at a rate.
In startup and resume there are so many keys, and all watchers come at once: to get
the state, or to get a change of each key that they have missed. In lists everybody
lists all keys, at once. In idle nothing is written but one event in the end.`,
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
	flags.StringVar(&p.Scenario, "scenario", scenario.Saturation, fmt.Sprintf("what is done: %v", scenario.Scenarios))
	flags.StringVar(&p.Peer, "peer", "fanoutd", fmt.Sprintf("what is measured: %v", peer.Names()))
	flags.StringVar(&p.Client, "client", load.ClientRaw, "who watches")
	flags.IntVar(&p.Watchers, "watchers", 1000, "watches")
	flags.IntVar(&p.PerConnection, "per-connection", 1, "watches on a connection")
	flags.IntVar(&p.PerStream, "per-stream", 1, "watches on a stream (etcd only)")
	flags.StringVar(&p.Interest, "interest", load.InterestAll, fmt.Sprintf("what each watcher watches: %v", load.Interests))
	flags.IntVar(&p.Groups, "groups", 10, "different labels, with --interest label, or interests, with --interest except")
	flags.IntVar(&p.Bystanders, "bystanders", 0, "watches besides the others of what nobody writes")
	flags.StringVar(&p.Bystand, "bystand", load.BystandKey, fmt.Sprintf("what those watch: %v", load.Bystands))
	flags.IntVar(&p.Keys, "keys", 64, "keys that are written to")
	flags.IntVar(&p.Objects, "objects", 0, "objects besides them that nobody writes")
	flags.IntVar(&p.Window, "window", 0, "changes that fanoutd's window has, which are written first; 0 is its default, and nothing is")
	flags.IntVar(&p.ValueSize, "value-size", 256, "bytes of a value")
	flags.IntVar(&p.Batch, "batch", 1, "events that are written together")
	flags.IntVar(&p.Outstanding, "outstanding", 1, "writes that are under way at once")
	flags.Float64Var(&p.Rate, "rate", 0, "writes per second, with --scenario steady")
	flags.DurationVar(&p.Duration, "duration", 5*time.Second, "how long is measured")
	flags.IntVar(&p.PageSize, "page-size", 0, "objects of a page, with --scenario lists; 0 is as many as the server gives")
	flags.IntVar(&p.Stalled, "stalled", 0, "watches besides the others whose client does not read")
	flags.StringVar(&p.Stall, "stall", load.StallFrozen, fmt.Sprintf("how it does not: %v", load.Stalls))
	flags.DurationVar(&p.StallFor, "stall-for", 0, "after what time such a client leaves and comes again; 0 is never")
	flags.StringVar(&o.Profile, "profile", "", "file for a CPU profile of fanoutd while it is measured")
	b.flags(cmd)
	return cmd
}

// program returns the path of this program.
func program() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("look for this program: %w", err)
	}
	return path, nil
}
