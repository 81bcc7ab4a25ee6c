package main

import (
	"fmt"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func clusterSnapshotCommand(t *tool) *cobra.Command {
	var (
		format      output.Format
		allowUnsafe bool
	)
	cmd := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write a snapshot of all data to a file, for fanoutd restore",
		Long: `Write the database of the server that answers to a file, in the format of etcd's snapshots. The file
appears, with mode 0600, only once it is complete, its hash is correct, and the database in it is
sound. An existing file is replaced and keeps its permissions.

A snapshot contains all resources with their history. Encrypted values stay encrypted: keep the
keyset in another place. "fanoutd restore" restores it. A single server with an embedded etcd has
snapshots, too.

The snapshot contains everything that was written before. If the server cannot know that, because it
has no majority, or if the data of members differs, the command is refused: try another server. With
--allow-unsafe it warns instead.`,
		Example: `  fanoutctl cluster snapshot backup.db`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			bar := t.newProgress(-1, progressbar.OptionSetDescription("Receiving"), progressbar.OptionShowBytes(true))
			s, err := t.members().Snapshot(ctx, args[0], allowUnsafe, func(received, remaining int64) {
				bar.ChangeMax64(received + remaining)
				_ = bar.Set64(received)
			})
			bar.finish()
			if err != nil {
				return err
			}
			if s.Problem != "" {
				fmt.Fprintf(t.stderr, "Warning: %s.\n", s.Problem)
			}
			if format.IsRecord() {
				return t.printer(format).Record(s)
			}
			fmt.Fprintf(t.stderr, "Snapshot of %s at revision %d written to %s (%s).\n", s.Member, s.Revision, s.File, output.Size(s.Bytes))
			return nil
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&allowUnsafe, "allow-unsafe", false, "take it also if newer writes may be missing, or if its data may be wrong")
	return cmd
}
