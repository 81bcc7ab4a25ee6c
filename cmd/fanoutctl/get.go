package main

import (
	"context"
	"errors"
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
			goal, err := parseGoal(wait)
			if err != nil {
				return err
			}
			if goal == follow.NoGoal && (s.labels != "" || s.fields != "") {
				return usagef("--selector and --fields require --wait")
			}
			if goal != follow.NoGoal && (read.revision != 0 || read.stale) {
				return usagef("--wait cannot be combined with --revision or --allow-stale")
			}
			consistency, err := read.consistency()
			if err != nil {
				return err
			}
			r := t.client.Resource(args[0]).JSONValues()
			if goal != follow.NoGoal {
				s.key = keyOf(args[1])
				t.noteWrongKey(s.key)
				return t.await(cmd.Context(), r, &s, goal, format)
			}
			ctx, cancel := t.withTimeout(cmd.Context(), requestTimeout)
			defer cancel()
			var opts []client.ReadOption
			if consistency != nil {
				opts = append(opts, consistency)
			}
			key := keyOf(args[1])
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

func parseGoal(wait string) (follow.Goal, error) {
	switch g := follow.Goal(wait); g {
	case follow.NoGoal, follow.Exists, follow.Absent:
		return g, nil
	}
	return "", usagef("--wait: invalid value %q (want exists or absent)", wait)
}

// await waits until the goal is reached. It prints the object if the goal is that it
// exists.
func (t *tool) await(ctx context.Context, r *client.Resource, s *selection, goal follow.Goal, format output.Format) error {
	ctx, cancel := t.withTimeout(ctx, 0)
	defer cancel()
	var found *client.Object
	noted := false
	opts := append(s.forWatch(), client.OnInterruption(t.reportInterruptions(ctx, r.Name())), client.WithoutReports())
	for u, err := range r.Watch(ctx, opts...) {
		if err != nil {
			return t.goalError(ctx, err, s, goal)
		}
		t.interruption = nil
		if u.Phase == client.PhaseReset {
			found = nil
		}
		if goal == follow.Exists && u.Phase == client.PhaseSynced && found == nil && !noted {
			noted = true
			t.noteMixup(ctx, r, s, "watch")
		}
		for _, e := range u.Events {
			found = e.Object
			if e.Type == client.Deleted {
				found = nil
			}
		}
		switch {
		case goal == follow.Exists && found != nil:
			return t.printer(format).Object(found)
		case goal == follow.Absent && found == nil && (u.Phase == client.PhaseSynced || len(u.Events) > 0):
			return nil
		}
	}
	return t.goalError(ctx, context.Cause(ctx), s, goal)
}

// goalError returns err, or a better message if the time is up.
func (t *tool) goalError(ctx context.Context, err error, s *selection, goal follow.Goal) error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	if goal == follow.Absent {
		return exitError{exitTimeout, t.timedOut(" waiting until no object%s exists", s)}
	}
	return exitError{exitTimeout, t.timedOut(" waiting for an object%s", s)}
}
