package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func putCommand(t *tool) *cobra.Command {
	var (
		file        string
		contentType string
		labels      map[string]string
		c           conditions
		ttl         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "put RESOURCE KEY [VALUE | --file FILE]",
		Short: "Write an object",
		Long: `Write an object and print the revision of the write. The value is an argument, the
content of a file, or what comes in by standard input (VALUE or FILE is then "-", or
left out in a pipe).

A value that is an object or an array of JSON, or the content of a file whose name
says what it is, gets the content type that fits; --content-type says another.`,
		Example: `  fanoutctl put config shop/limits '{"rps": 100}'
  fanoutctl put config shop/banner --file banner.html --label team=web
  date | fanoutctl put config heartbeat --ttl 1m
  fanoutctl put config lock me --if-absent`,
		Args:              arguments(cobra.RangeArgs(2, 3)),
		ValidArgsFunction: t.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 3 && file != "" {
				return usagef("the value is an argument or in --file, not both")
			}
			precondition, err := c.precondition(cmd)
			if err != nil {
				return err
			}
			data, err := t.value(args, file)
			if err != nil {
				return err
			}
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := t.withTimeout(cmd.Context(), usual)
			defer cancel()
			if contentType == "" {
				contentType = t.guess(ctx, args[0], file, data)
			}
			var opts []client.WriteOption
			if precondition != nil {
				opts = append(opts, precondition)
			}
			if ttl != 0 {
				opts = append(opts, client.TTL(ttl))
			}
			revision, err := r.Put(ctx, args[1], transfer.Value(data, contentType, utf8.Valid(data)).WithLabels(labels), opts...)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(t.out, revision)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` with the value; - is standard input")
	cmd.Flags().StringVar(&contentType, "content-type", "", "media `type` of the value")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "label of the object, as `name=value`; may be given several times")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "remove the object after this `time`, such as 30s")
	c.bind(cmd)
	return cmd
}

// value is what is to be written.
func (t *tool) value(args []string, file string) ([]byte, error) {
	switch {
	case len(args) == 3 && args[2] != "-":
		return []byte(args[2]), nil
	case file != "" && file != "-":
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the value: %w", err)
		}
		return data, nil
	case file == "" && len(args) == 2 && isTerminal(t.in):
		return nil, usagef("there is no value: give it as an argument, with --file, or in a pipe")
	}
	data, err := io.ReadAll(t.in)
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	return data, nil
}

// guess returns a content type where the resource takes any.
func (t *tool) guess(ctx context.Context, resource, file string, data []byte) string {
	guessed := document.TypeOf(file, data)
	if guessed == "" || !takesLabels(t.codec(ctx, resource)) {
		return ""
	}
	return guessed
}

// codec returns the codec of a resource; empty where the server does not say.
func (t *tool) codec(ctx context.Context, resource string) string {
	c, err := t.client()
	if err != nil {
		return ""
	}
	return admin.New(t.settings.Server, c).Codec(ctx, resource)
}

// takesLabels reports whether a resource with this codec keeps labels and content
// types, and does not take them from the values. A server that does not say is one
// with the default.
func takesLabels(codec string) bool { return codec == "" || codec == "object" }

// conditions are what has to hold for a write.
type conditions struct {
	revision int64
	absent   bool
}

func (c *conditions) bind(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&c.revision, "if-revision", 0, "only if the object has this `revision`; else the exit code is 4")
	if cmd.Name() == "put" {
		cmd.Flags().BoolVar(&c.absent, "if-absent", false, "only if there is no such object; else the exit code is 4")
	}
}

func (c *conditions) precondition(cmd *cobra.Command) (client.Precondition, error) {
	given := cmd.Flags().Changed("if-revision")
	switch {
	case given && c.absent:
		return nil, usagef("--if-revision and --if-absent do not go together")
	case given && c.revision < 1:
		return nil, usagef("--if-revision: must be at least 1")
	case given:
		return client.IfRevision(c.revision), nil
	case c.absent:
		return client.IfAbsent(), nil
	}
	return nil, nil
}

// isNotFound reports whether there is no such object.
func isNotFound(err error) bool { return errors.Is(err, client.ErrNotFound) }

func deleteCommand(t *tool) *cobra.Command {
	var (
		c      conditions
		ignore bool
	)
	cmd := &cobra.Command{
		Use:     "delete RESOURCE KEY...",
		Aliases: []string{"rm"},
		Short:   "Delete objects",
		Long: `Delete objects, each at a revision of its own, and print these. If one of them does
not exist, the others are deleted all the same, and the exit code is 3.`,
		Example: `  fanoutctl delete config shop/limits
  fanoutctl list config old -o key | xargs -r fanoutctl delete config`,
		Args:              arguments(cobra.MinimumNArgs(2)),
		ValidArgsFunction: t.completeKeys(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			precondition, err := c.precondition(cmd)
			if err != nil {
				return err
			}
			if precondition != nil && len(args) > 2 {
				return usagef("--if-revision is for one object")
			}
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			all, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			var opts []client.DeleteOption
			if precondition != nil {
				opts = append(opts, precondition)
			}
			var missing error
			for _, key := range args[1:] {
				// The usual time is for each of them, --timeout for all.
				ctx, cancel := t.withTimeout(all, usual)
				revision, deleted, err := r.Delete(ctx, key, opts...)
				cancel()
				switch {
				case err != nil:
					return err
				case deleted:
					fmt.Fprintln(t.out, revision)
				case !ignore && missing == nil:
					missing = fmt.Errorf("the object %q %w in %s (at revision %d); --ignore-not-found is content with that", key, errNotThere, args[0], revision)
				}
			}
			return missing
		},
	}
	c.bind(cmd)
	cmd.Flags().BoolVar(&ignore, "ignore-not-found", false, "objects that do not exist are no error")
	return cmd
}
