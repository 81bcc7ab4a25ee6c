package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
)

func listCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		read   readOptions
		limit  int
		s      selection
		count  bool
		at     string
	)
	cmd := &cobra.Command{
		Use:     "list RESOURCE [PATH]",
		Aliases: []string{"ls"},
		Short:   "List objects",
		Long: `List the objects of a resource, or those below a path, in key order. All objects are
read at the same revision.

The path "shop" includes shop/limits but not shop itself.

With --at, list the objects as they were at a revision or a time, from the history of the
resource. This requires the right "history". An object whose state is not known at that revision is
named on standard error, and the exit code is 8.`,
		Example: `  # List the objects below shop
  fanoutctl list config shop

  # Select by label, with more columns
  fanoutctl list config -l env=prod -o wide

  # List what was there yesterday
  fanoutctl list config shop --at 24h

  # Filter by value with jq
  fanoutctl list config -o jsonl | jq -r 'select(.value.rps > 100).key'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := t.client.Resource(args[0]).JSONValues()
			s.setPath(args)
			opts := s.forList()
			consistency, err := read.consistency()
			if err != nil {
				return err
			}
			if consistency != nil {
				opts = append(opts, consistency)
			}
			if count && limit > 0 {
				return usagef("--count and --limit are mutually exclusive")
			}
			if at != "" && (count || consistency != nil || s.labels != "" || s.fields != "") {
				return usagef("--at cannot be combined with --count, --selector, --fields, --revision or --allow-stale")
			}
			if limit > 0 {
				opts = append(opts, client.PageSize(limit))
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			if count {
				n, err := r.Count(ctx, opts...)
				if err != nil {
					return err
				}
				fmt.Fprintln(t.out, n)
				return nil
			}
			if at != "" {
				return t.listAt(ctx, r, &s, at, format, limit)
			}
			shown := t.printer(format).Objects()
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
			if n == 0 {
				hint := ""
				if t.mixup(ctx, r, &s) != "" {
					hint = fmt.Sprintf(` %q is an object: run "fanoutctl get %s %s".`, s.prefix, args[0], s.prefix)
				}
				if hint != "" || format == output.Table || format == output.Wide {
					fmt.Fprintf(t.stderr, "No objects found in %s%s.%s\n", args[0], &s, hint)
				}
			}
			return shown.Close()
		},
	}
	formatFlag(cmd, &format, output.Table)
	atFlag(cmd, &at)
	cmd.Flags().BoolVar(&count, "count", false, "print only the number of objects")
	s.bind(cmd)
	read.bind(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum `number` of objects to list (0: no limit)")
	return cmd
}

// listAt prints the objects of a selection without selectors as they were at a revision or a time.
func (t *tool) listAt(ctx context.Context, r *client.Resource, s *selection, at string, format output.Format, limit int) error {
	revision, err := revisionOf(ctx, r, s.scope(), cmp.Or(s.prefix, "any object"), at)
	if err != nil {
		return err
	}
	shown := t.printer(format).Objects()
	n, unknown := 0, 0
	for state, err := range past.All(ctx, r, s.scope(), revision) {
		if err != nil {
			return tooManyKeys(err)
		}
		if state.Unknown != "" {
			unknown++
			fmt.Fprintf(output.Visible(t.stderr), "fanoutctl: %s is not listed: %s\n", state.Key, state.Unknown)
			continue
		}
		if err := shown.Add(state.Object); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if n == 0 && unknown == 0 && (format == output.Table || format == output.Wide) {
		fmt.Fprintf(t.stderr, "No objects found in %s%s at revision %d.\n", r.Name(), s, revision)
	}
	if err := shown.Close(); err != nil {
		return err
	}
	return unknownStates(unknown)
}

// selection is the set of objects that a command applies to.
type selection struct {
	prefix string
	key    string
	labels string
	fields string
}

// bind defines the flags --selector and --fields.
func (s *selection) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.labels, "selector", "l", "", "label `selector`, such as env=prod,tier!=test")
	cmd.Flags().StringVar(&s.fields, "fields", "", "field `selector`, such as region=eu,name!=default")
}

// setPath takes the path from the optional second argument, and the key from its flag. Slashes around
// them are ignored.
func (s *selection) setPath(args []string) {
	s.key = keyOf(s.key)
	if len(args) > 1 {
		s.prefix = strings.Trim(args[1], "/")
	}
}

// scope returns the path or the key, or nil for all objects.
func (s *selection) scope() client.Scope {
	switch {
	case s.prefix != "":
		return client.Prefix(s.prefix)
	case s.key != "":
		return client.Key(s.key)
	}
	return nil
}

func (s *selection) forList() []client.ListOption {
	opts := []client.ListOption{client.Labels(s.labels), client.Fields(s.fields)}
	if scope := s.scope(); scope != nil {
		opts = append(opts, scope)
	}
	return opts
}

func (s *selection) forWatch() []client.WatchOption {
	opts := []client.WatchOption{client.Labels(s.labels), client.Fields(s.fields)}
	if scope := s.scope(); scope != nil {
		opts = append(opts, scope)
	}
	return opts
}

// String describes the selection in a message, after the noun. It begins with a space
// unless it is empty.
func (s *selection) String() string {
	text := ""
	if s.prefix != "" {
		text += " below " + s.prefix
	}
	if s.key != "" {
		text += " with key " + s.key
	}
	if s.labels != "" || s.fields != "" {
		text += " matching the selectors"
	}
	return text
}
