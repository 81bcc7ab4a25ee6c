package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/follow"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func getCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		read   readOptions
		wait   string
		s      selection
	)
	cmd := &cobra.Command{
		Use:   "get RESOURCE KEY",
		Short: "Print an object",
		Long: `Print the value of an object exactly as stored. Use -o to include the metadata. On a
terminal, control characters are shown as ^X.

With --wait, wait until the object exists and matches --selector and --fields. With
--wait=absent, wait until no such object exists.`,
		Example: `  # Print a value
  fanoutctl get config shop/limits

  # Extract a field of a JSON value
  fanoutctl get config shop/limits -o json | jq .value.rps

  # Wait up to a minute for an object
  fanoutctl get config shop/limits --wait --timeout 1m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait == "" && (s.labels != "" || s.fields != "") {
				return usagef("--selector and --fields require --wait")
			}
			if wait != "" && (read.revision != 0 || read.stale) {
				return usagef("--wait cannot be combined with --revision or --allow-stale")
			}
			key := keyOf(args[1])
			if wait != "" {
				s.key = key
				return t.await(cmd.Context(), args[0], s, wait, format)
			}
			consistency, err := read.consistency()
			if err != nil {
				return err
			}
			r := t.client.Resource(args[0]).JSONValues()
			ctx, cancel := t.withTimeout(cmd.Context(), requestTimeout)
			defer cancel()
			var opts []client.ReadOption
			if consistency != nil {
				opts = append(opts, consistency)
			}
			o, err := r.Get(ctx, key, opts...)
			if err != nil {
				return t.explainMissing(ctx, r, key, err)
			}
			if format == output.Value && o.Undecryptable() {
				return fmt.Errorf("the server cannot decrypt the value of %q; use -o json to show the metadata", o.Key)
			}
			return t.printer(format).Object(o)
		},
	}
	formatFlag(cmd, &format, output.Value)
	bindGoal(cmd, &wait)
	s.bind(cmd)
	read.bind(cmd)
	return cmd
}

// readOptions are the consistency flags of get and list.
type readOptions struct {
	revision int64
	stale    bool
}

func (r *readOptions) bind(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&r.revision, "revision", 0, "read the state at this `revision`")
	cmd.Flags().BoolVar(&r.stale, "allow-stale", false, "read from the server's memory without asking etcd; works while etcd is down")
}

// consistency returns nil for the default, a linearizable read.
func (r *readOptions) consistency() (client.Consistency, error) {
	switch {
	case r.revision != 0 && r.stale:
		return nil, usagef("--revision and --allow-stale are mutually exclusive")
	case r.revision != 0:
		return client.AtRevision(r.revision), nil
	case r.stale:
		return client.AllowStale(), nil
	}
	return nil, nil
}

// bindGoal defines the flag --wait.
func bindGoal(cmd *cobra.Command, wait *string) {
	cmd.Flags().StringVar(wait, "wait", "", "wait until an object `exists`, or until none does (--wait=absent)")
	cmd.Flags().Lookup("wait").NoOptDefVal = string(follow.Exists)
}

// await waits until the goal is reached. It prints the object if the goal is that it exists.
func (t *tool) await(ctx context.Context, resource string, s selection, goal string, format output.Format) error {
	w := watchFlags{tool: t, s: s, wait: goal, onFailure: string(follow.Stop)}
	if err := w.check(); err != nil {
		return err
	}
	w.show = func(u *client.Update) error {
		if o := follow.Present(u); o != nil && w.goal == follow.Exists {
			return t.printer(format).Object(o)
		}
		return nil
	}
	return w.run(ctx, resource)
}
