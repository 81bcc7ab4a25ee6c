package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/follow"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
)

func getCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		read   readOptions
		wait   string
		at     string
		s      selection
	)
	cmd := &cobra.Command{
		Use:   "get RESOURCE KEY",
		Short: "Print an object",
		Long: `Print the value of an object exactly as stored. Use -o to include the metadata. On a
terminal, control characters are shown as ^X.

With --at, print the object as it was at a revision or a time, from the history of the
resource. Unlike --revision, this also works after etcd has forgotten the revision, and
requires the right "history".

With --wait, wait until the object exists and matches --selector and --fields. With
--wait=absent, wait until no such object exists.`,
		Example: `  # Print a value
  fanoutctl get config shop/limits

  # Extract a field of a JSON value
  fanoutctl get config shop/limits -o json | jq .value.rps

  # Print yesterday's value
  fanoutctl get config shop/limits --at 24h

  # Wait up to a minute for an object
  fanoutctl get config shop/limits --wait --timeout 1m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait == "" && (s.labels != "" || s.fields != "") {
				return usagef("--selector and --fields require --wait")
			}
			if wait != "" && (read.revision != 0 || read.stale) {
				return usagef("--wait cannot be combined with --revision or --allow-stale")
			}
			if at != "" && (wait != "" || read.revision != 0 || read.stale) {
				return usagef("--at cannot be combined with --wait, --revision or --allow-stale")
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
			if at != "" {
				return t.getAt(ctx, r, key, at, format)
			}
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
	atFlag(cmd, &at)
	return cmd
}

// getAt prints an object as it was at a revision or a time.
func (t *tool) getAt(ctx context.Context, r *client.Resource, key, at string, format output.Format) error {
	o, revision, err := pastOf(ctx, r, key, at)
	if err != nil {
		return err
	}
	if o == nil {
		if text := t.mixup(ctx, r, &selection{key: key}); text != "" {
			return exitError{exitNotFound, fmt.Errorf(`%s: run "fanoutctl list %s %s"`, text, r.Name(), key)}
		}
		return fmt.Errorf("object %q %w at revision %d", key, errNotFound, revision)
	}
	return t.printer(format).Object(o)
}

// pastOf returns an object as it was at a revision or a time, and the revision. The object is nil if it did
// not exist.
func pastOf(ctx context.Context, r *client.Resource, key, at string) (*client.Object, int64, error) {
	revision, err := revisionOf(ctx, r, client.Key(key), key, at)
	if err != nil {
		return nil, 0, err
	}
	s, err := past.Of(ctx, r, key, revision)
	if err == nil && s.Unknown != "" {
		err = fmt.Errorf("the state of %q at revision %d is not known: %s", key, revision, s.Unknown)
	}
	return s.Object, revision, err
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
