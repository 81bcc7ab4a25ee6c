package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
)

const restoreLong = `Fill the empty data directory of these settings with a snapshot of etcd, as "fanoutctl cluster
snapshot" and "etcdctl snapshot save" write it, also one of an external etcd. Run it with the
settings and as the user of the server, which must be stopped. With --replace, the directory may
have data, which stays beside the new data.

The data becomes that of a new cluster, and its revision is raised by 1,000,000,000, so clients
never see revisions go back. Subscribers start over with a RESET. History, labels and encrypted
values come along; the keyset file is not in the snapshot.

With the setting cluster, run it on one server. The others must be stopped meanwhile, and begin
without data: they join this one. The command prints how.`

func restoreCommand(environ []string) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore SNAPSHOT",
		Short: "Fill the empty data directory with a snapshot of etcd",
		Long:  restoreLong,
		Example: `  # Replace the data in /var/lib/fanoutd by a backup
  mv /var/lib/fanoutd/etcd /var/lib/fanoutd/etcd.old
  fanoutd restore --data-dir /var/lib/fanoutd backup.db`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			restore := app.Restore
			if replace {
				restore = app.Replace
			}
			done, err := restore(cmd.Context(), cfg, args[0], warnings(cmd, cfg))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "Restored %s with %d keys into %s.\n", args[0], done.Keys, done.Dir)
			return describe(out, cfg, done)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "if the directory has data, keep it beside the new data, as etcd.before-restore")
	return cmd
}

const recoverLong = `Make the data of this server, a member of a cluster that has lost its majority for good, the
data of a new cluster. Run it with the settings and as the user of the server. All servers must
be stopped, and those that are lost must not come back with their data.

Without --yes, it only prints what this server has. Run it so on each survivor, and recover the
one with the highest term; of several, the one with the highest entry.

Writes that the lost servers have acknowledged and this one has not received are lost. If the
lost servers can be repaired, repair them instead: two of three are enough, and lose nothing. If
a backup is newer than this server's data, use fanoutd restore.

Everything in the log of this server is kept, and its files stay beside the new ones. As after a
restore, subscribers start over with a RESET, and the other servers join without data. Without
the setting cluster, the data becomes that of a single server.`

func recoverCommand(environ []string) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Continue with the data of this server when a majority of the cluster is lost",
		Long:  recoverLong,
		Example: `  # See what this server has
  fanoutd recover --config /etc/fanoutd/fanoutd.yaml

  # Continue with it
  fanoutd recover --config /etc/fanoutd/fanoutd.yaml --yes`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !yes {
				return plan(cmd, out, cfg)
			}
			done, err := app.Recover(cmd.Context(), cfg, warnings(cmd, cfg))
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "Recovered %s.\n", done.Dir)
			return describe(out, cfg, done)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "recover; without it, nothing is changed")
	return cmd
}

// plan prints what a survivor has.
func plan(cmd *cobra.Command, out io.Writer, cfg config.Config) error {
	s, err := app.InspectSurvivor(cmd.Context(), cfg, warnings(cmd, cfg))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `%s has the data of %s, a member of cluster %x with %s.

  term      %d
  entry     %d (in the database: %d)
  revision  %d or higher
  written   %s

Recover the survivor with the highest term; of several, the one with the highest entry.
Writes that others have acknowledged and this server has not received will be lost.
Nothing has been changed. To recover this server's data, run the command again with --yes.
`, s.Path, s.Name, s.Cluster, strings.Join(s.Members, ", "), s.Term, s.Entry, s.Applied, s.Revision, s.Changed.UTC().Format(time.RFC3339))
	return err
}

// describe prints what holds after the data directory was filled, and what is to be done.
func describe(out io.Writer, cfg config.Config, done app.Restored) error {
	if done.Former != "" {
		fmt.Fprintf(out, "The former files are in %s.\n", done.Former)
	}
	fmt.Fprintf(out, "It begins cluster %x at revision %d.\n", done.Cluster, done.Revision)
	if done.AuthenticationOff {
		fmt.Fprintln(out, "Authentication of etcd was on in the snapshot, and is off now: the server does not use it.")
	}
	if quota := int64(cfg.EmbeddedEtcdQuota); done.Bytes > quota {
		fmt.Fprintf(out, "Its %d bytes are more than embedded-etcd-quota, %d, so writes will be refused: raise the quota.\n", done.Bytes, quota)
	}
	if len(done.Others) == 0 {
		_, err := fmt.Fprintln(out, "Start the server.")
		return err
	}
	_, err := fmt.Fprintf(out, `Start this server. On the others (%s), move the data away before they start:

  mv %s %s.old

Writes are accepted once %d of %d servers vote.
`, strings.Join(done.Others, ", "), done.Dir, done.Dir, done.Majority, len(done.Others)+1)
	return err
}

// warnings returns a logger for a command that prints its result itself.
func warnings(cmd *cobra.Command, cfg config.Config) *slog.Logger {
	if cfg.LogLevel == "info" {
		cfg.LogLevel = "warn"
	}
	return newLogger(cmd.ErrOrStderr(), cfg)
}
