package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func diffCommand(t *tool) *cobra.Command {
	var flags planFlags
	var from, to, file string
	cmd := &cobra.Command{
		Use:   "diff RESOURCE SOURCE | RESOURCE KEY | PATH/ --from REVISION | TIME",
		Short: "Show what an import would change, or what has changed",
		Long: `Show what an import of the same documents would change, as a unified diff from the server
to the documents.

With --from, show what has changed in an object since a revision or a time, or until --to. With a
path that ends in a slash, show it for each object below the path; "/" is the whole resource. The
resource needs a history. An object whose state is not known at one of the revisions is listed,
and the exit code is 8. With --file, compare the value in a file with the object, as it is or as it
was at --from.

The exit code is 0 if there are no differences and 1 if there are. Failures for which
other commands exit with 1 exit with 2.

` + documentHelp,
		Example: `  # Compare a resource with a directory, including objects to delete
  fanoutctl diff config ./environments/prod --prefix prod --prune

  # Show what has changed in an object since yesterday
  fanoutctl diff config shop/limits --from 24h

  # Show what has changed below shop between two revisions
  fanoutctl diff config shop/ --from 4711 --to 4799

  # Compare an object with a value in a file
  fanoutctl diff config shop/limits --file limits.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			r := t.client.Resource(args[0])
			key, isKey := keyArgument(args)
			var plan *transfer.Plan
			var err error
			switch {
			case file != "" && to != "":
				err = usagef("--file and --to are mutually exclusive")
			case file != "" && !isKey:
				err = usagef("--file requires a key")
			case file != "":
				plan, err = t.planFile(ctx, r, key, from, file)
			case from != "" && isKey:
				plan, err = t.planPast(ctx, r, key, from, to)
			case from != "":
				err = t.diffPath(ctx, r, historyScope(args), args[1], from, to)
			case to != "":
				err = usagef("--to requires --from")
			default:
				plan, err = flags.plan(ctx, t, args[0], args[1])
			}
			if err == nil && plan != nil {
				err = t.showDiff(plan)
			}
			if err != nil && exitCode(cmd.Context(), err) == exitFailed && err != errDifferent {
				return exitError{exitTrouble, err}
			}
			return err
		},
	}
	flags.bind(cmd)
	cmd.Flags().Lookup("prune").Usage = "show objects without a document as deleted"
	cmd.Flags().StringVar(&from, "from", "", "compare the object, or those below PATH/, of this `revision` or time, such as 24h ago")
	cmd.Flags().StringVar(&file, "file", "", "compare the object KEY with the value in this `file`")
	cmd.Flags().StringVar(&to, "to", "", "with --from: compare with this `revision` or time (default: with the present)")
	return cmd
}

// planPast returns the difference between two states of an object; empty to: the present one.
func (t *tool) planPast(ctx context.Context, r *client.Resource, key, from, to string) (*transfer.Plan, error) {
	r = r.JSONValues()
	old, first, err := pastOf(ctx, r, key, from)
	if err != nil {
		return nil, err
	}
	var changed *client.Object
	var second int64
	if to != "" {
		changed, second, err = pastOf(ctx, r, key, to)
	} else if changed, err = r.Get(ctx, key); isNotFound(err) {
		err = nil
	}
	switch {
	case err != nil:
		return nil, err
	case old == nil && changed == nil:
		if err := t.checkKnown(ctx, r, key); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("object %q %w at revision %d and %s", key, errNotFound, first, nameRevision(second))
	case past.Same(old, changed):
		return &transfer.Plan{Unchanged: 1}, nil
	}
	return &transfer.Plan{Changes: []transfer.Change{pastChange(key, old, changed, first, second)}}, nil
}

// nameRevision names a revision; 0 is the present one.
func nameRevision(revision int64) string {
	if revision == 0 {
		return "now"
	}
	return fmt.Sprintf("revision %d", revision)
}

// pastChange returns the change from one state of an object to another. One of them may be nil.
func pastChange(key string, old, changed *client.Object, first, second int64) transfer.Change {
	c := transfer.Change{Action: transfer.Update, Key: key, Old: old, Was: fmt.Sprintf("%s at %s", key, nameRevision(first))}
	if changed == nil {
		c.Action = transfer.Delete
		return c
	}
	if old == nil {
		c.Action = transfer.Create
	}
	c.New = new(document.Exact(changed))
	c.New.Where = fmt.Sprintf("%s at %s", key, nameRevision(second))
	return c
}

// diffPath shows the differences between two states of the objects of a scope, which the argument path names; empty to: the
// present one.
func (t *tool) diffPath(ctx context.Context, r *client.Resource, of client.Scope, path, from, to string) error {
	r = r.JSONValues()
	first, err := revisionOf(ctx, r, of, path, from)
	if err != nil {
		return err
	}
	var second int64
	if to != "" {
		if second, err = revisionOf(ctx, r, of, path, to); err != nil {
			return err
		}
	}
	different, unknown := false, 0
	for d, err := range past.Differences(ctx, r, of, first, second) {
		if err != nil {
			return tooManyKeys(err)
		}
		why := ""
		switch {
		case d.From.Unknown != "":
			why = fmt.Sprintf("its state at revision %d is not known: %s", first, d.From.Unknown)
		case d.To.Unknown != "":
			why = fmt.Sprintf("its state at revision %d is not known: %s", second, d.To.Unknown)
		default:
			different = true
			if err := t.showChange(pastChange(d.From.Key, d.From.Object, d.To.Object, first, second)); err != nil {
				return err
			}
			continue
		}
		unknown++
		fmt.Fprintf(output.Visible(t.stderr), "fanoutctl: %s is not compared: %s\n", d.From.Key, why)
	}
	switch {
	case unknown > 0:
		return exitError{exitPartial, fmt.Errorf("%s cannot be compared", english.Plural(unknown, "object", ""))}
	case different:
		return errDifferent
	}
	if text := t.mixup(ctx, r, &selection{prefix: strings.Trim(path, "/")}); text != "" {
		return exitError{exitNotFound, fmt.Errorf("%s: leave out the slash", text)}
	}
	return nil
}

// tooManyKeys adds what to do to the error of a comparison of too many objects.
func tooManyKeys(err error) error {
	if errors.Is(err, past.ErrTooMany) {
		return exitError{exitUsage, fmt.Errorf("%w; choose a longer path or a later revision", err)}
	}
	return err
}

// planFile returns the difference between an object, as it is or was, and the value in a file. Labels do not count, and a
// file that does not say its content type has that of the object.
func (t *tool) planFile(ctx context.Context, r *client.Resource, key, from, file string) (*transfer.Plan, error) {
	value, err := pipe.ReadFile(ctx, file)
	if err != nil {
		return nil, inputError(fmt.Errorf("cannot read value: %w", err))
	}
	r = r.JSONValues()
	c := transfer.Change{Action: transfer.Update, Key: key}
	if from == "" {
		c.Old, err = r.Get(ctx, key)
	} else {
		var revision int64
		c.Old, revision, err = pastOf(ctx, r, key, from)
		c.Was = fmt.Sprintf("%s at revision %d", key, revision)
	}
	if isNotFound(err) {
		c.Old, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	contentType, _ := document.TypeOf(file, value) // what only looks like JSON is text
	c.New = &document.Document{Key: key, Content: document.NewContent(contentType, value), Where: file}
	if c.Old == nil {
		c.Action = transfer.Create
		return &transfer.Plan{Changes: []transfer.Change{c}}, nil
	}
	c.New.Labels = c.Old.Labels
	if document.IsJSON(c.Old.ContentType) && document.IsJSON(contentType) {
		c.New.Text, c.New.Value = nil, value // without insignificant spaces
	}
	if c.New.Matches(c.Old) {
		return &transfer.Plan{Unchanged: 1}, nil
	}
	return &transfer.Plan{Changes: []transfer.Change{c}}, nil
}

// errDifferent ends diff with the exit code for differences, without a message.
var errDifferent = exitError{code: exitDifferent}

// showDiff prints the changes as a unified diff, and returns errDifferent if there are any.
func (t *tool) showDiff(plan *transfer.Plan) error {
	for _, c := range plan.Changes {
		if err := t.showChange(c); err != nil {
			return err
		}
	}
	if len(plan.Changes) > 0 {
		return errDifferent
	}
	return nil
}

// showChange prints a change as a unified diff.
func (t *tool) showChange(c transfer.Change) error {
	text, err := transfer.Diff(c)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(t.styled, diffStyle(line).Styled(strings.TrimRight(line, "\n")))
	}
	return nil
}

func diffStyle(line string) ansi.Style {
	switch {
	case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
		return output.Bold
	case strings.HasPrefix(line, "@@"):
		return output.Name
	case strings.HasPrefix(line, "-"):
		return output.Bad
	case strings.HasPrefix(line, "+"):
		return output.Good
	}
	return output.Plain
}
