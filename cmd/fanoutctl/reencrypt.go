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
		Short: "Have the server encrypt what is stored with another key, or not at all",
		Long: `Have the server store the values of a resource anew that are not stored in etcd as it
would store them today: encrypted with the primary key of its keyset, or plain where the
resource is not encrypted. That is due when a key was promoted, and when encryption was
switched on or off, on all servers.

Whoever watches is told of each object that is stored anew as modified, with the same
value. What others write meanwhile is not touched. Ctrl-C lets the server finish what is
under way. Of several servers, all must encrypt with the same key. What is done is not
done again: the same command goes on where the last one was, and does nothing where
there is nothing to do.`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if rate < 0 {
				return usagef("--rate: must not be negative")
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			a, err := t.agreed(ctx, args[0])
			if err != nil {
				return err
			}
			bar := t.progress("Reencrypting "+args[0], -1)
			done, err := a.Reencrypt(ctx, args[0], rate, func(r *admin.Reencrypted) {
				bar.set(int(r.Objects), r.Objects+r.Remaining)
			})
			bar.finish()
			if format != output.Table && (err == nil || done.Objects > 0) {
				err = errors.Join(err, output.Records(t.writer(format), format, t.width(), nil, []admin.Reencrypted{*done}, reencryptedCells))
			}
			return t.reencrypted(done, err)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().IntVar(&rate, "rate", 1000, "`number` of objects that are stored anew in a second at most, so that those who watch are not flooded; 0: no limit")
	return cmd
}

// agreed returns one of the servers, if all of them encrypt the values of a resource
// with the same key: those that do not would undo what it does.
func (t *tool) agreed(ctx context.Context, resource string) (*admin.Admin, error) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	if len(servers) == 1 {
		return servers[0], nil
	}
	answers, err := ask(ctx, t, servers, func(ctx context.Context, a *admin.Admin) ([]admin.Resource, error) {
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
				return nil, fmt.Errorf("%s encrypts with key %d and %s with key %d (0: not at all); first bring the same keyset to all servers",
					first.Server, first.PrimaryKey, r.Server, r.PrimaryKey)
			}
		}
	}
	return servers[0], nil
}

func reencryptedCells(r admin.Reencrypted) []string { return []string{r.Resource} }

// reencrypted says what was done, or what of it could not be.
func (t *tool) reencrypted(done *admin.Reencrypted, err error) error {
	switch {
	case errors.Is(err, errInterrupted):
		return exitError{exitInterrupted, fmt.Errorf("interrupted after %d of about %d objects; do the same again to go on", done.Objects, done.Objects+done.Remaining)}
	case errors.Is(err, admin.ErrKeyChanged):
		return fmt.Errorf("%w; when all servers have the same keyset, do the same again", err)
	case err != nil && done.Objects > 0:
		return fmt.Errorf("after %d of about %d objects: %w", done.Objects, done.Objects+done.Remaining, err)
	case err != nil:
		return err
	case done.Undecryptable > 0:
		return fmt.Errorf("%s; %d cannot be decrypted, so they were left as they are: has a key been removed too early?", summary(done), done.Undecryptable)
	case done.Changed > 0:
		return fmt.Errorf("%s; %d were written meanwhile by who does it otherwise: have all servers the same keyset? Then do the same again", summary(done), done.Changed)
	}
	fmt.Fprintf(t.stderr, "%s.\n", summary(done))
	return nil
}

func summary(r *admin.Reencrypted) string {
	how := "plain"
	if r.Encrypted {
		how = "encrypted with key " + strconv.FormatUint(uint64(r.PrimaryKey), 10)
	}
	return fmt.Sprintf("%d of %d objects were stored anew, %s", r.Reencrypted, r.Objects, how)
}
