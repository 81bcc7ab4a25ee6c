package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func historyPurgeCommand(t *tool) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge RESOURCE KEY",
		Short: "Remove old values of an object from the history, such as a secret",
		Long: `Remove the history of an object, for example because a secret was written by mistake. The command
asks for confirmation; without a terminal it requires --yes.

The last write stays, and with it the present value. So overwrite or delete the object first.
etcd keeps what was removed until it compacts: "fanoutctl reclaim" compacts an embedded etcd
at once. Backups, audit logs and subscribers may have the old values, too.

The command requires the right "purge".`,
		Example: `  # Remove a secret from an object and its history
  fanoutctl put config shop/db '{"password": "${DB_PASSWORD}"}'
  fanoutctl history purge config shop/db
  fanoutctl reclaim`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				if err := t.needTerminal(""); err != nil {
					return err
				}
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			resource, key := args[0], keyOf(args[1])
			if err := wrongKey(key); err != nil {
				return usagef("the key %w", err)
			}
			if !yes {
				if ok, err := t.agreesToPurge(ctx, t.client.Resource(resource), key); err != nil {
					return err
				} else if !ok {
					return errors.New("nothing was removed")
				}
			}
			removed, err := admin.New(t.settings.Server, t.client).PurgeHistory(ctx, resource, key)
			if err != nil {
				return err
			}
			fmt.Fprintf(output.Visible(t.stderr), "%s of %s removed from the history. The last write stays.\n", english.Plural(int(removed), "write", ""), key)
			if removed > 0 {
				fmt.Fprintln(t.stderr, `etcd keeps the removed values until it compacts; "fanoutctl reclaim" compacts an embedded etcd at once.`)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// agreesToPurge asks whether to remove the history of an object, and says what stays. The caller may lack the right to
// read it.
func (t *tool) agreesToPurge(ctx context.Context, r *client.Resource, key string) (bool, error) {
	switch _, err := r.Get(ctx, key); {
	case err == nil:
		fmt.Fprintf(output.Visible(t.stderr), "%s exists. Its present value stays, in the object and in the history: if it must go, overwrite or delete the object first.\n", key)
	case isNotFound(err) || isDenied(err):
	default:
		return false, err
	}
	return t.agrees(ctx, fmt.Sprintf("Remove the older values of %s from the history of %s? They cannot be restored.", output.Printable(key), r.Name()))
}
