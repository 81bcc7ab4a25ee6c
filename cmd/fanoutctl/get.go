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
		format   output.Format
		revision int64
		stale    bool
		wait     string
		s        selection
	)
	cmd := &cobra.Command{
		Use:   "get RESOURCE KEY",
		Short: "Print an object",
		Long: `Print an object: its value, byte for byte, or with -o everything about it.

With --wait it waits until there is an object with the key, and with --selector or
--fields until it matches; with --wait=absent until there is none.`,
		Example: `  fanoutctl get config shop/limits
  fanoutctl get config shop/limits -o json | jq .value.rps
  fanoutctl get config shop/limits --wait --timeout 1m`,
		Args:              arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: t.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			goal, err := parseGoal(wait)
			if err != nil {
				return err
			}
			if goal == follow.NoGoal && (s.labels != "" || s.fields != "") {
				return usagef("--selector and --fields need --wait")
			}
			if goal != follow.NoGoal && (revision != 0 || stale) {
				return usagef("--wait is about the present: it does not go with --revision and --any")
			}
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			if goal != follow.NoGoal {
				s.key = args[1]
				return t.await(cmd.Context(), r, &s, goal, format)
			}
			var opts []client.ReadOption
			switch {
			case revision != 0 && stale:
				return usagef("--revision and --any do not go together")
			case revision != 0:
				opts = append(opts, client.AtRevision(revision))
			case stale:
				opts = append(opts, client.AllowStale())
			}
			ctx, cancel := t.withTimeout(cmd.Context(), usual)
			defer cancel()
			o, err := r.Get(ctx, args[1], opts...)
			if err != nil {
				return err
			}
			if format == output.Value && o.Undecryptable() {
				return fmt.Errorf("the server cannot decrypt the value of %q; -o json shows what is known of it", o.Key)
			}
			return output.One(t.writer(format), format, t.width(), o)
		},
	}
	formatFlag(cmd, &format, output.Value)
	bindGoal(cmd, &wait)
	s.bind(cmd)
	cmd.Flags().Int64Var(&revision, "revision", 0, "the object as it was at this `revision`")
	cmd.Flags().BoolVar(&stale, "any", false, "whatever the server holds, without asking etcd; works while etcd is away")
	return cmd
}

func bindGoal(cmd *cobra.Command, wait *string) {
	cmd.Flags().StringVar(wait, "wait", "", "wait until there `is` an object (exists, the default) or none (absent)")
	cmd.Flags().Lookup("wait").NoOptDefVal = string(follow.Exists)
}

func parseGoal(wait string) (follow.Goal, error) {
	switch g := follow.Goal(wait); g {
	case follow.NoGoal, follow.Exists, follow.Absent:
		return g, nil
	}
	return "", usagef("--wait: must be exists or absent, not %q", wait)
}

// await waits for an object, and prints it.
func (t *tool) await(ctx context.Context, r *client.Resource, s *selection, goal follow.Goal, format output.Format) error {
	ctx, cancel := t.withTimeout(ctx, 0)
	defer cancel()
	var found *client.Object
	for u, err := range r.Watch(ctx, s.forWatch()...) {
		if err != nil {
			return waited(ctx, err, s, goal)
		}
		if u.Replace {
			found = nil
		}
		for _, e := range u.Events {
			found = e.Object
			if e.Type == client.Deleted {
				found = nil
			}
		}
		switch {
		case goal == follow.Exists && found != nil:
			return output.One(t.writer(format), format, t.width(), found)
		case goal == follow.Absent && found == nil && u.Synced, goal == follow.Absent && found == nil && len(u.Events) > 0:
			return nil
		}
	}
	return waited(ctx, context.Cause(ctx), s, goal)
}

// waited says what was waited for in vain.
func waited(ctx context.Context, err error, s *selection, goal follow.Goal) error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	what := "there is no object"
	if goal == follow.Absent {
		what = "there still is an object"
	}
	return exitError{exitTimeout, fmt.Errorf("%s%s, and the time is up that --timeout gives", what, s)}
}
