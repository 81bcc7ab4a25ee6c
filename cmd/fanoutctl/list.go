package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func listCommand(t *tool) *cobra.Command {
	var (
		format   output.Format
		revision int64
		stale    bool
		limit    int
		s        selection
	)
	cmd := &cobra.Command{
		Use:     "list RESOURCE [PATH]",
		Aliases: []string{"ls"},
		Short:   "List objects, all of them or those below a path",
		Long: `List the objects of a resource, or those below a path, in order of their keys and as
they were at one revision. "shop" has shop/limits below it, but not shop itself.`,
		Example: `  fanoutctl list config shop
  fanoutctl list config -l env=prod -o wide
  fanoutctl list config -o jsonl | jq -r 'select(.value.rps > 100).key'`,
		Args:              arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: t.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			s.below(args)
			opts := s.forList()
			switch {
			case revision != 0 && stale:
				return usagef("--revision and --any do not go together")
			case revision != 0:
				opts = append(opts, client.AtRevision(revision))
			case stale:
				opts = append(opts, client.AllowStale())
			}
			if limit < 0 {
				return usagef("--limit: must not be negative")
			}
			if limit > 0 {
				opts = append(opts, client.PageSize(limit))
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			shown := output.NewObjects(t.writer(format), format, t.width())
			n := 0
			for o, err := range r.List(ctx, opts...) {
				if err != nil {
					return err
				}
				if err := shown.Add(o); err != nil {
					return err
				}
				if n++; n == limit {
					break
				}
			}
			if n == 0 && (format == output.Table || format == output.Wide) {
				fmt.Fprintf(t.stderr, "There are no objects in %s%s.\n", args[0], &s)
			}
			return shown.Close()
		},
	}
	formatFlag(cmd, &format, output.Table)
	s.bind(cmd)
	cmd.Flags().Int64Var(&revision, "revision", 0, "the objects as they were at this `revision`")
	cmd.Flags().BoolVar(&stale, "any", false, "whatever the server holds, without asking etcd; works while etcd is away")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after this `number` of objects")
	return cmd
}

// selection is which objects a command is about.
type selection struct {
	prefix string
	key    string
	labels string
	fields string
}

func (s *selection) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.labels, "selector", "l", "", "only objects whose `labels` match, such as env=prod,tier!=test")
	cmd.Flags().StringVar(&s.fields, "fields", "", "only objects whose `fields` match, such as region=eu,name!=default")
}

// below takes the argument that names a path, if there is one. A slash at its end
// means the same.
func (s *selection) below(args []string) {
	if len(args) > 1 {
		s.prefix = strings.Trim(args[1], "/")
	}
}

func (s *selection) options() []client.Selection {
	var opts []client.Selection
	if s.prefix != "" {
		opts = append(opts, client.Prefix(s.prefix))
	}
	if s.key != "" {
		opts = append(opts, client.Key(s.key))
	}
	if s.labels != "" {
		opts = append(opts, client.Labels(s.labels))
	}
	if s.fields != "" {
		opts = append(opts, client.Fields(s.fields))
	}
	return opts
}

func (s *selection) forList() []client.ListOption {
	var opts []client.ListOption
	for _, o := range s.options() {
		opts = append(opts, o)
	}
	return opts
}

func (s *selection) forWatch() []client.WatchOption {
	var opts []client.WatchOption
	for _, o := range s.options() {
		opts = append(opts, o)
	}
	return opts
}

// String says what is selected, for messages.
func (s *selection) String() string {
	text := ""
	if s.prefix != "" {
		text += " below " + s.prefix
	}
	if s.key != "" {
		text += " with the key " + s.key
	}
	if s.labels != "" || s.fields != "" {
		text += " that matches"
	}
	return text
}
