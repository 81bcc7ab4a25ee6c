package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// reclaimTimeout is the default timeout of a server. A database of 64 GiB takes minutes.
const reclaimTimeout = 15 * time.Minute

func reclaimCommand(t *tool) *cobra.Command {
	var (
		format      output.Format
		keepHistory bool
	)
	cmd := &cobra.Command{
		Use:   "reclaim",
		Short: "Free unused space of an embedded etcd, and let it accept writes again",
		Long: `Discard the history of the server's embedded etcd, defragment its database, and let it
accept writes again if it had reached its quota (STORE_FULL). Delete objects that are not
needed first: deletions are possible while other writes are refused. A cluster accepts writes
again once the databases of all its servers have room: name them all, or run "fanoutctl cluster
defrag" afterwards.

Writes and reads of the newest state wait while the database is defragmented, which takes
seconds for each GiB. The disk needs as much free space as the database has data.

An external etcd is compacted and defragmented with etcdctl.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			servers, err := t.servers(cmd.Context())
			if err != nil {
				return err
			}
			var done []admin.Reclaimed
			for _, server := range servers {
				ctx, cancel := t.withTimeout(cmd.Context(), reclaimTimeout)
				r, failed := server.ReclaimSpace(ctx, keepHistory)
				cancel()
				if failed != nil {
					err = errors.Join(err, serverError{server.Server, failed})
					continue
				}
				done = append(done, r)
				if format == output.Table {
					fmt.Fprintln(t.stderr, reclaimSummary(r))
				}
			}
			if format != output.Table && len(done) > 0 {
				columns := []output.Column[admin.Reclaimed]{{Cell: func(r admin.Reclaimed) string { return r.Server }}}
				err = errors.Join(err, output.Records(t.printer(format), columns, done))
			}
			return err
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().BoolVar(&keepHistory, "keep-history", false, "do not discard the history; frees only what etcd has already discarded")
	return cmd
}

func reclaimSummary(r admin.Reclaimed) string {
	summary := fmt.Sprintf("The database of %s has %s, before %s; the quota is %s.", r.Server,
		output.Size(r.Bytes), output.Size(r.BytesBefore), output.Size(r.QuotaBytes))
	if r.AcceptsWritesAgain {
		summary += " It accepts writes again."
	}
	return summary
}
