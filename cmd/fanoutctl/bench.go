package main

import (
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/bench"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func benchCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		b      bench.Run
	)
	cmd := &cobra.Command{
		Use:   "bench RESOURCE",
		Short: "Measure how long writes take, and how long until watchers hear of them",
		Long: `Write objects below a path of its own, with watchers that wait for them, and show how
long the writes took and how long it was from the beginning of a write until each
watcher had its event. Everything happens in one process on this machine, so the
numbers include its own work. The objects are deleted afterwards.`,
		Example:           `  fanoutctl bench config --writes 10000 --writers 16 --watchers 100`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.Writes < 1 || b.Writers < 1 || b.Watchers < 0 || b.Size < 0 {
				return usagef("--writes and --writers must be at least 1, --watchers and --size at least 0")
			}
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := t.within(cmd.Context(), 0)
			defer cancel()
			bar := t.progress("Writing", int64(b.Writes))
			b.Resource, b.Done = r, func() { bar.add(1) }
			result, err := b.Do(ctx)
			bar.finish()
			if err != nil {
				return err
			}
			return output.Records(t.writer(format), format, t.width(), bench.Columns(), result, bench.Latency.Cells)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().IntVar(&b.Writes, "writes", 1000, "`number` of writes")
	cmd.Flags().IntVar(&b.Writers, "writers", 1, "`number` of writes at the same time")
	cmd.Flags().IntVar(&b.Watchers, "watchers", 10, "`number` of watchers")
	cmd.Flags().IntVar(&b.Size, "size", 256, "size of a value in `bytes`")
	return cmd
}
