package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func reencryptCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		rate   int
	)
	cmd := &cobra.Command{
		Use:   "reencrypt RESOURCE",
		Short: "Rewrite stored values with the current encryption key",
		Long: `Rewrite the values in etcd that are not stored with the server's current encryption:
encrypted with the primary key of its keyset, or unencrypted if the resource is not
encrypted. Run it after a key has been promoted, or after encryption has been switched on
or off, on all servers.

Watchers receive each rewritten object as modified, with the same value. Objects that
other clients write meanwhile are skipped. Ctrl-C waits for the batch in progress. Run the
same command again to continue; values that are up to date are not rewritten.

If --server names several servers, all of them must use the same primary key.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			a, err := t.sameKeyServer(ctx, args[0])
			if err != nil {
				return err
			}
			bar := t.countObjects("Reencrypting "+args[0], -1)
			done, err := a.Reencrypt(ctx, args[0], rate, func(r *admin.Reencryption) {
				if total := r.Objects + r.Remaining; total > 0 {
					bar.ChangeMax64(total)
				}
				_ = bar.Set64(r.Objects)
			})
			bar.finish()
			if format != output.Table && (err == nil || done.Objects > 0) {
				columns := []output.Column[*admin.Reencryption]{{Cell: func(r *admin.Reencryption) string { return r.Resource }}}
				err = errors.Join(err, output.Records(t.printer(format), columns, []*admin.Reencryption{done}))
			}
			return t.reencryptResult(done, err)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().IntVar(&rate, "rate", 1000, "maximum `number` of objects to rewrite per second, to avoid flooding watchers (0: no limit)")
	return cmd
}

// sameKeyServer returns one of the servers. It fails if the servers encrypt the resource
// with different keys, because they would undo each other's work.
func (t *tool) sameKeyServer(ctx context.Context, resource string) (*admin.Admin, error) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	if len(servers) == 1 {
		return servers[0], nil
	}
	answers, err := ask(ctx, t, func(ctx context.Context, a *admin.Admin) ([]admin.Resource, error) {
		return a.Resources(ctx, false)
	})
	if err != nil {
		return nil, err
	}
	var first *admin.Resource
	for _, answer := range answers {
		for _, r := range answer.Value {
			switch {
			case r.Name != resource:
			case first == nil:
				first = &r
			case r.Encrypted != first.Encrypted || r.PrimaryKey != first.PrimaryKey:
				return nil, fmt.Errorf("%s encrypts with key %d and %s with key %d (0: not encrypted); deploy the same keyset to all servers first",
					first.Server, first.PrimaryKey, r.Server, r.PrimaryKey)
			}
		}
	}
	return servers[0], nil
}

// reencryptResult prints a summary, or returns an error if the work is incomplete.
func (t *tool) reencryptResult(done *admin.Reencryption, err error) error {
	switch {
	case errors.Is(err, errInterrupted):
		return exitError{exitInterrupted, fmt.Errorf("interrupted after %d of about %d objects; run the same command again to continue", done.Objects, done.Objects+done.Remaining)}
	case errors.Is(err, admin.ErrKeyChanged):
		return fmt.Errorf("%w; run the same command again once all servers have the same keyset", err)
	case err != nil && done.Objects > 0:
		return fmt.Errorf("failed after %d of about %d objects: %w", done.Objects, done.Objects+done.Remaining, err)
	case err != nil:
		return err
	case done.Undecryptable > 0:
		return fmt.Errorf("%s; %d cannot be decrypted and were left unchanged: was a key removed too early?", reencryptSummary(done), done.Undecryptable)
	case done.Changed > 0:
		return fmt.Errorf("%s; %d were written with another key meanwhile: make sure that all servers have the same keyset, then run the same command again", reencryptSummary(done), done.Changed)
	}
	fmt.Fprintf(t.stderr, "%s.\n", reencryptSummary(done))
	return nil
}

func reencryptSummary(r *admin.Reencryption) string {
	how := "unencrypted"
	if r.Encrypted {
		how = "encrypted with key " + strconv.FormatUint(uint64(r.PrimaryKey), 10)
	}
	return fmt.Sprintf("%d of %d objects rewritten, %s", r.Reencrypted, r.Objects, how)
}
