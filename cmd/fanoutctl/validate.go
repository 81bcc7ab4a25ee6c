package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func validateCommand(t *tool) *cobra.Command {
	var (
		stored bool
		source document.Source
		s      selection
	)
	cmd := &cobra.Command{
		Use:   "validate RESOURCE [FILE...]",
		Short: "Ask the server which objects its validation rules refuse",
		Long: `Ask the server whether it would store the documents in files, as "import" reads them.
Nothing is written. A file can also be a directory, or "-" for standard input. With --raw, it is a
directory whose files are the values; their paths are the keys.

With --stored, check the stored objects instead: which of them would be refused today, if
they were new? They are served all the same.

Each fault has a line with its place in the file, the key, a JSON pointer into the value, and what
is allowed. The exit code is 1 if anything is refused. The command needs the right "put" to the
keys.

To check one value, use "fanoutctl put RESOURCE KEY --file FILE --dry-run".`,
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
			case stored && source.Raw:
				return usagef("--stored and --raw are mutually exclusive")
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			r := t.client.Resource(args[0])
			s.prefix = strings.Trim(s.prefix, "/")
			documents, err := t.documentsToCheck(ctx, r, source, files, &s)
			if err != nil {
				return err
			}
			scope := transfer.Scope{DerivedLabels: t.derivesLabels(ctx, args[0])}
			refusals, err := scope.Validate(ctx, r, documents, stored)
			if err != nil {
				return err
			}
			changes := make([]transfer.Change, len(documents))
			for i := range documents {
				changes[i] = transfer.Change{Action: transfer.Create, Key: documents[i].Key, New: &documents[i]}
			}
			refused := printRefusals(t.out, changes, refusals)
			if refused > 0 {
				return fmt.Errorf("%d of %s refused", refused, english.Plural(len(documents), "object", ""))
			}
			fmt.Fprintf(t.stderr, "%d checked, none refused.\n", len(documents))
			if t.hasNoRules(ctx, args[0]) {
				fmt.Fprintf(t.stderr, "fanoutctl: %s has no validation rules\n", args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&stored, "stored", false, "check the stored objects instead of documents")
	cmd.Flags().StringVar(&s.prefix, "prefix", "", "with --stored, check only the objects below this `path`")
	cmd.Flags().BoolVar(&source.Raw, "raw", false, "the files in each directory are the values, and their paths the keys; names that begin with a dot are skipped")
	return cmd
}

// documentsToCheck reads the documents in files, or if there are none, those of the stored objects.
func (t *tool) documentsToCheck(ctx context.Context, r *client.Resource, source document.Source, files []string, s *selection) ([]document.Document, error) {
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
	source.Stdin, source.Lines = t.in, true
	for _, path := range files {
		if path == "-" && isTerminal(t.in) {
			return nil, usagef("standard input is a terminal: pipe or redirect the documents")
		}
		source.Path = path
		documents, err := source.Documents(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case errors.Is(err, document.ErrPlainValue):
			return nil, inputError(fmt.Errorf(`%w; if it is a value without a key, run "fanoutctl put %s KEY --file %s --dry-run", or use --raw for a directory of values`, err, r.Name(), path))
		case err != nil:
			return nil, inputError(err)
		}
		all = append(all, documents...)
	}
	return all, nil
}
