package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func exportCommand(t *tool) *cobra.Command {
	var (
		s      selection
		format string
		prune  bool
		raw    bool
		dir    bool
	)
	cmd := &cobra.Command{
		Use:   "export RESOURCE [TARGET]",
		Short: "Write objects to files or a stream, for import",
		Long: `Write the objects of a resource, as they were at one revision, as documents: to a
stream (standard output, or TARGET is "-"), to a file, or with --dir, or if TARGET ends
with a slash or is one, to a directory with a file for each object.

A file is replaced when everything is in it. In a directory only files are written that
differ, so an export that was interrupted goes on where it was. Nothing is lost: an
import of what was exported gives the same values, byte for byte, content types and
labels. Times to live are not kept.`,
		Example: `  fanoutctl export config backup.yaml
  fanoutctl export config ./backup/ --prune
  fanoutctl export config --prefix shop -o jsonl | jq -r .key`,
		Args:              arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: t.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			target := "-"
			if len(args) > 1 {
				target = args[1]
			}
			info, err := os.Stat(target)
			dir = dir || strings.HasSuffix(target, "/") || err == nil && info.IsDir()
			if !dir && (prune || raw) {
				return usagef("--prune and --raw are for directories")
			}
			if prune && (s.labels != "" || s.fields != "") {
				return usagef("--prune needs all objects below --prefix: it does not go with --selector and --fields")
			}
			if dir && target == "-" {
				return usagef("--dir needs the name of a directory")
			}
			s.prefix = strings.Trim(s.prefix, "/")
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			sink, err := t.sink(target, format, dir, raw, transfer.Scope{Prefix: s.prefix, Prune: prune})
			if err != nil {
				return err
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			bar := t.progress("Exporting "+args[0], -1)
			if target == "-" && isTerminal(t.stdout) {
				bar = &progress{} // it would be in the middle of what is shown
			}
			objects, changed, err := transfer.Export(ctx, r, sink, bar.set, s.forList()...)
			bar.finish()
			switch {
			case err != nil && exitCode(ctx, err) == exitInterrupted:
				return exitError{exitInterrupted, fmt.Errorf("interrupted after %d objects; %s", objects, left(target, dir))}
			case err != nil:
				return err
			}
			if d, ok := sink.(*transfer.Directory); ok {
				fmt.Fprintf(t.stderr, "%d objects: %d files written, %d unchanged, %d removed.\n", objects, changed, objects-changed, d.Removed)
			} else if target != "-" {
				fmt.Fprintf(t.stderr, "%d objects.\n", objects)
			}
			return nil
		},
	}
	s.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&s.prefix, "prefix", "", "only objects below this `path`")
	f.StringVarP(&format, "output", "o", "", "`format` of a stream or file: yaml or jsonl; default: what the name of the file says, else yaml")
	f.BoolVar(&dir, "dir", false, "TARGET is a directory")
	f.BoolVar(&prune, "prune", false, "remove files of objects that are no longer there (below --prefix, if that is given); only files that export has made")
	f.BoolVar(&raw, "raw", false, "the files of the directory have the values alone; labels and content types are lost")
	return cmd
}

// left says what an export that was interrupted leaves behind.
func left(target string, dir bool) string {
	switch {
	case dir:
		return "do the same again to go on"
	case target == "-":
		return "what was written is not everything"
	}
	return target + " was not touched"
}

func (t *tool) sink(target, format string, dir, raw bool, scope transfer.Scope) (transfer.Sink, error) {
	if dir {
		if format != "" && format != string(transfer.YAML) {
			return nil, usagef("a directory has files in YAML, not in %s", format)
		}
		d, err := transfer.OpenDirectory(target, raw, scope)
		if err != nil {
			return nil, usageError{err}
		}
		return d, nil
	}
	if format == "" {
		format = string(transfer.YAML)
		if strings.HasSuffix(target, ".jsonl") || strings.HasSuffix(target, ".json") {
			format = string(transfer.JSONL)
		}
	}
	if format != string(transfer.YAML) && format != string(transfer.JSONL) {
		return nil, usagef("--output: must be yaml or jsonl, not %q", format)
	}
	if target == "-" {
		return transfer.NewStream(t.out, transfer.Format(format)), nil
	}
	return transfer.NewFile(target, transfer.Format(format))
}
