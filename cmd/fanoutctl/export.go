package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func exportCommand(t *tool) *cobra.Command {
	var (
		s      selection
		format output.Format
		prune  bool
		raw    bool
		dir    bool
	)
	cmd := &cobra.Command{
		Use:   "export RESOURCE [TARGET]",
		Short: "Write objects to a file, a directory or standard output",
		Long: `Write the objects of a resource as documents that import reads. All objects are read at
the same revision.

TARGET is a file, a directory, or "-" for standard output (the default). It is taken for a
directory if it ends with a slash, is an existing directory, or if --dir is set. A
directory gets one file per object.

A file is replaced only when the export is complete; a device or a named pipe is written
to. In a directory, only files that differ are written, so running an interrupted export
again continues it.

An import restores the values exactly, with content types and labels, but without times to
live. Values that the server cannot decode are the exception: a warning gives their number.`,
		Example: `  # Export to a file
  fanoutctl export config backup.yaml

  # Keep a directory up to date and remove the files of deleted objects
  fanoutctl export config ./backup/ --prune

  # Print the keys below shop
  fanoutctl export config --prefix shop -o jsonl | jq -r .key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target := "-"
			if len(args) > 1 {
				target = args[1]
			}
			info, err := os.Stat(target)
			dir = dir || strings.HasSuffix(target, "/") || err == nil && info.IsDir()
			isStream := target == "-" || err == nil && !info.Mode().IsRegular()
			if !dir && (prune || raw) {
				return usagef("--prune and --raw require a directory")
			}
			if prune && (s.labels != "" || s.fields != "") {
				return usagef("--prune needs all objects below --prefix and cannot be combined with --selector or --fields")
			}
			if dir && target == "-" {
				return usagef("--dir requires TARGET")
			}
			s.prefix = strings.Trim(s.prefix, "/")
			r := t.client.Resource(args[0])
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			total := int64(0)                                                     // no bar
			if isTerminal(t.stderr) && (target != "-" || !isTerminal(t.stdout)) { // otherwise it would mix with the documents
				if total, err = r.Count(ctx, s.forList()...); err != nil {
					return err
				}
			}
			sink, err := t.exportSink(ctx, target, format, dir, raw, transfer.Scope{Prefix: s.prefix, Prune: prune})
			if err != nil {
				return err
			}
			bar := t.countObjects("Exporting "+args[0], total)
			done, err := transfer.Export(ctx, r, sink, bar.add, s.forList()...)
			bar.finish()
			switch {
			case err != nil && exitCode(ctx, err) == exitInterrupted:
				return exitError{exitInterrupted, fmt.Errorf("interrupted after %d objects; %s", done.Objects, interruptedExport(target, dir, isStream))}
			case err != nil:
				return err
			}
			if done.Objects == 0 {
				if text := t.mixup(ctx, r, &s); text != "" {
					fmt.Fprintf(t.stderr, "fanoutctl: %s: run \"fanoutctl get %s %s -o yaml\"\n", text, args[0], s.prefix)
				}
			}
			if d, ok := sink.(*transfer.Directory); ok {
				fmt.Fprintf(t.stderr, "%d objects: %d files written, %d unchanged, %d removed.\n", done.Objects, d.Written, done.Objects-d.Written, d.Removed)
			} else if target != "-" {
				fmt.Fprintf(t.stderr, "%d objects.\n", done.Objects)
			}
			if done.Opaque > 0 {
				fmt.Fprintf(t.stderr, "fanoutctl: warning: the server cannot decode the values of %d objects, which may belong to another program; an import does not restore them as they are\n", done.Opaque)
			}
			return nil
		},
	}
	s.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&s.prefix, "prefix", "", "export only objects below this `path`")
	f.StringVarP((*string)(&format), "output", "o", "", "output `format`: yaml or jsonl (default: from the file extension, else yaml)")
	f.BoolVar(&dir, "dir", false, "TARGET is a directory")
	f.BoolVar(&prune, "prune", false, "remove exported files whose objects no longer exist (only below --prefix, if set)")
	f.BoolVar(&raw, "raw", false, "write only the values to the files of the directory, without labels and content types")
	return cmd
}

// interruptedExport describes the state of the target after an interrupted export.
func interruptedExport(target string, dir, isStream bool) string {
	switch {
	case dir:
		return "run the same command again to continue"
	case isStream:
		return "the output is incomplete"
	}
	return target + " is unchanged"
}

func (t *tool) exportSink(ctx context.Context, target string, format output.Format, dir, raw bool, scope transfer.Scope) (transfer.Sink, error) {
	if dir {
		if format != "" && format != output.YAML {
			return nil, usagef("--output: directories support only yaml, not %s", format)
		}
		d, err := transfer.OpenDirectory(target, raw, scope)
		if err != nil {
			return nil, inputError(err)
		}
		return d, nil
	}
	switch extension := filepath.Ext(target); {
	case format == output.YAML, format == output.JSONL:
	case format != "":
		return nil, usagef("--output: unknown format %q (want yaml or jsonl)", string(format))
	case extension == ".jsonl", extension == ".json":
		format = output.JSONL
	default:
		format = output.YAML
	}
	if target == "-" {
		return transfer.NewStream(t.out, format), nil
	}
	f, err := transfer.NewFile(ctx, target, format)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil, err
	case err != nil:
		return nil, inputError(err)
	}
	return f, nil
}
