package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func validateCommand(t *tool) *cobra.Command {
	var (
		stored bool
		s      selection
	)
	cmd := &cobra.Command{
		Use:   "validate RESOURCE [FILE...]",
		Short: "Ask the server which objects its validation rules refuse",
		Long: `Ask the server whether it would store the documents in files, as "import" reads them.
Nothing is written. A file can also be a directory, or "-" for standard input.

With --stored, check the stored objects instead: which of them would be refused today, if
they were new? They are served all the same.

Each fault has a line with the key, a JSON pointer into the value, and what is allowed. The
exit code is 1 if anything is refused. The command needs the right "put" to the keys.`,
		Example: `  # Check documents before an import, for example in CI
  fanoutctl validate config ./environments/prod

  # Show which stored objects today's rules would refuse
  fanoutctl validate config --stored`,
		RunE: func(cmd *cobra.Command, args []string) error {
			files := args[1:]
			switch {
			case stored && len(files) > 0:
				return usagef("--stored and FILE are mutually exclusive")
			case !stored && len(files) == 0:
				return usagef("missing FILE; to check what is stored, use --stored")
			case !stored && cmd.Flags().Changed("prefix"):
				return usagef("--prefix requires --stored")
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			r := t.client.Resource(args[0])
			s.prefix = strings.Trim(s.prefix, "/")
			documents, err := t.documentsToCheck(ctx, r, files, &s)
			if err != nil {
				return err
			}
			scope := transfer.Scope{DerivedLabels: t.derivesLabels(ctx, args[0])}
			refusals, err := scope.Validate(ctx, r, documents, stored)
			if err != nil {
				return err
			}
			keys := make([]string, len(documents))
			for i := range documents {
				keys[i] = documents[i].Key
			}
			refused := printRefusals(t.out, keys, refusals)
			if refused > 0 {
				return fmt.Errorf("%d of %s refused", refused, english.Plural(len(documents), "object", ""))
			}
			fmt.Fprintf(t.stderr, "%d checked, none refused.\n", len(documents))
			return nil
		},
	}
	cmd.Flags().BoolVar(&stored, "stored", false, "check the stored objects instead of documents")
	cmd.Flags().StringVar(&s.prefix, "prefix", "", "with --stored, check only the objects below this `path`")
	return cmd
}

// documentsToCheck reads the documents in files, or if there are none, those of the stored objects.
func (t *tool) documentsToCheck(ctx context.Context, r *client.Resource, files []string, s *selection) ([]document.Document, error) {
	var all []document.Document
	if len(files) == 0 {
		for o, err := range r.List(ctx, s.forList()...) {
			if err != nil {
				return nil, err
			}
			if !o.Opaque { // nothing can be said about what the server cannot decode
				all = append(all, document.Exact(o))
			}
		}
		return all, nil
	}
	for _, path := range files {
		if path == "-" && isTerminal(t.in) {
			return nil, usagef("standard input is a terminal: pipe or redirect the documents")
		}
		documents, err := document.Source{Path: path, Stdin: t.in}.Documents(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, inputError(err)
		}
		all = append(all, documents...)
	}
	return all, nil
}

// printRefusals prints the faults of objects, and returns how many objects have some.
func printRefusals(w io.Writer, keys []string, refusals []error) (refused int) {
	for i, err := range refusals {
		if err == nil {
			continue
		}
		refused++
		e, ok := errors.AsType[*client.Error](err)
		if !ok || len(e.Violations) == 0 {
			fmt.Fprintf(w, "%s: %s\n", output.Printable(keys[i]), output.Printable(err.Error()))
			continue
		}
		for _, v := range slices.SortedStableFunc(slices.Values(e.Violations), func(a, b client.Violation) int { return cmp.Compare(a.Field, b.Field) }) {
			where := v.Field
			if e.Reason == client.ErrValueRefused {
				_, pointer, _ := strings.Cut(v.Field, "/")
				if where = ""; pointer != "" { // otherwise, the fault is one of the whole value
					where = "/" + pointer + " "
				}
			} else {
				where += " "
			}
			fmt.Fprintf(w, "%s: %s%s\n", output.Printable(keys[i]), output.Printable(where), output.Printable(v.Description))
		}
	}
	return refused
}
