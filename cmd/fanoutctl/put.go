package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func putCommand(t *tool) *cobra.Command {
	var (
		file        string
		contentType string
		labels      map[string]string
		c           preconditions
		ttl         time.Duration
		keepTTL     bool
		overwrite   bool
		message     string
		dryRun      bool
		skip        bool
		g           gatedFlags
	)
	cmd := &cobra.Command{
		Use:   "put RESOURCE KEY [VALUE | --file FILE]",
		Short: "Create or replace an object",
		Long: `Create or replace an object and print the revision of the write. The value comes from
the argument, from --file, or from standard input if VALUE or FILE is "-" or if input is
piped and not empty.

The content type is derived from the file name, or is application/json if the value is a
JSON object or array. A value that begins like one must be valid JSON. Use --content-type
to set another one.

With --wait, wait until the watches that overlap the key have applied the write, as
"fanoutctl wait" does with the printed revision; see its help for the flags. If the exit
code is not 0 although a revision was printed, the object was written: exit code 9 says
that watchers cannot apply it, 7 that --timeout has elapsed. --timeout limits the write and
the wait together; by default, the wait lasts at most 2m.

With --rollback as well, the former object is restored if the wait fails, or the new one
deleted, unless another client has written it since. The exit code is then 10, or 11 if the
object was not restored. A signal ends the command without a rollback.`,
		Example: `  # Write a JSON value
  fanoutctl put config shop/limits '{"rps": 100}'

  # Write a file, with a label
  fanoutctl put config shop/banner --file banner.html --label team=web

  # Write from standard input; delete the object after a minute
  date | fanoutctl put config heartbeat --ttl 1m

  # Check a value, and write nothing
  fanoutctl put config shop/limits '{"rps": 100}' --dry-run

  # Say why; "fanoutctl history" shows it
  fanoutctl put config shop/limits '{"rps": 100}' --message 'evening traffic'

  # Write only if the object does not exist
  fanoutctl put config lock me --if-absent

  # Write, and take the write back unless all watches apply it
  fanoutctl put config shop/limits '{"rps": 100}' --wait --rollback --timeout 1m

  # Write, then wait until all but 1% of the watches have applied the change
  fanoutctl put config shop/limits '{"rps": 100}' --wait --quorum 99% --timeout 1m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 3 && file != "" {
				return usagef("VALUE and --file are mutually exclusive")
			}
			if ttl != 0 && keepTTL {
				return usagef("--ttl and --keep-ttl are mutually exclusive")
			}
			precondition, err := c.precondition(cmd)
			if err != nil {
				return err
			}
			if err := g.check(cmd, message); err != nil {
				return err
			}
			if dryRun && (g.wait || skip) {
				return usagef("--dry-run and --wait or --skip-validation are mutually exclusive")
			}
			data, err := t.value(cmd.Context(), args, file)
			if err != nil {
				return err
			}
			guessed := ""
			if contentType == "" {
				if guessed, err = document.TypeOf(file, data); err != nil {
					return usagef("%v; to write it nevertheless, name its --content-type", err)
				}
			}
			var servers []client.Server
			if g.wait {
				if servers, err = t.eachServer(cmd.Context()); err != nil {
					return err
				}
			}
			r := t.client.Resource(args[0]).Because(message)
			all, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			ctx, cancel := t.withTimeout(all, requestTimeout)
			defer cancel()
			var opts []client.WriteOption
			if ttl != 0 {
				opts = append(opts, client.TTL(ttl))
			}
			if keepTTL {
				opts = append(opts, client.KeepTTL())
			}
			if overwrite {
				opts = append(opts, client.OverwriteOpaque())
			}
			if skip {
				opts = append(opts, client.SkipValidation())
			}
			v := client.Text(string(data)).WithContentType(cmp.Or(contentType, guessed)).WithLabels(labels)
			put := r.Put
			if dryRun {
				put = func(ctx context.Context, key string, v client.Value, opts ...client.WriteOption) (int64, error) {
					return 0, r.Validate(ctx, key, v, opts...)
				}
			}
			write := func(condition ...client.WriteOption) (int64, error) {
				opts := slices.Concat(opts, condition)
				revision, err := put(ctx, keyOf(args[1]), v, opts...)
				if guessed != "" && transfer.RefusesField(err, "content_type") {
					revision, err = put(ctx, keyOf(args[1]), v.WithContentType(""), opts...)
				}
				return revision, err
			}
			var revision int64
			undo := t.newUndo(cmd.Context(), r, message)
			undo.KeepTTL, undo.SkipValidation = keepTTL, skip
			switch {
			case g.rollback:
				revision, err = t.putOver(ctx, undo, keyOf(args[1]), &c, write)
			case precondition != nil:
				revision, err = write(precondition)
			default:
				revision, err = write()
			}
			if err != nil {
				return err
			}
			if dryRun {
				allowed := "The rules allow the value."
				if t.hasNoRules(ctx, args[0]) {
					allowed = fmt.Sprintf("%s has no validation rules, so nothing was compared.", args[0])
				}
				fmt.Fprintln(t.stderr, allowed, "Nothing was written.")
				return nil
			}
			fmt.Fprintln(t.out, revision)
			if !g.wait {
				return nil
			}
			err = t.awaitWrite(all, g.options(servers, args[0], &selection{key: keyOf(args[1])}, revision))
			return t.settle(cmd.Context(), err, undo)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the value from this `file` (-: standard input)")
	cmd.Flags().StringVar(&contentType, "content-type", "", "media `type` of the value")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "set a label, as `name=value`; can be repeated")
	cmd.Flags().Lookup("label").DefValue = "" // not []
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "time to live: delete the object after this `duration`, such as 30s")
	overwriteFlag(cmd, &overwrite)
	cmd.Flags().BoolVar(&keepTTL, "keep-ttl", false, "keep the time to live of the object, if it has one")
	messageFlag(cmd, &message)
	c.bind(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the value against the validation rules of the resource, and write nothing")
	skipFlag(cmd, &skip)
	g.bind(cmd, "the key")
	return cmd
}

// awaitWrite waits until the watches have applied a write. Everything it prints goes to standard
// error, because standard output has the revision.
func (t *tool) awaitWrite(ctx context.Context, o gateOptions) error {
	// A script that reads the revision need not wait for the watches.
	if err := t.out.Flush(); err != nil {
		return err
	}
	status, err := t.awaitApplied(ctx, o)
	if !isOutcome(err) {
		err = refusingServer(status, err)
		return exitError{exitCode(ctx, err), fmt.Errorf("revision %d was written, but waiting for it failed: %s", o.Revision, t.explain(exitCode(ctx, err), err))}
	}
	if err == nil {
		fmt.Fprintf(t.stderr, "%s.\n", status)
	}
	// Only standard error could fail here, which must not look like a failure of the gate.
	_ = t.printPending(status)
	return waitError(err, &o)
}

// value returns the value to write.
func (t *tool) value(ctx context.Context, args []string, file string) ([]byte, error) {
	switch {
	case len(args) == 3 && args[2] != "-":
		return []byte(args[2]), nil
	case file != "" && file != "-":
		data, err := pipe.ReadFile(ctx, file)
		if err != nil {
			return nil, inputError(fmt.Errorf("cannot read value: %w", err))
		}
		return data, nil
	case file == "" && len(args) == 2 && isTerminal(t.in):
		return nil, usagef("no value: pass it as an argument, with --file, or through a pipe")
	}
	data, err := pipe.ReadAll(ctx, t.in)
	if err != nil {
		return nil, fmt.Errorf("cannot read value: %w", err)
	}
	if len(data) == 0 && file == "" && len(args) == 2 {
		// A forgotten value in a script, whose input is empty.
		return nil, usagef(`no value: standard input is empty; to write an empty value, pass "" as an argument`)
	}
	return data, nil
}

// preconditions are the flags --if-revision and --if-absent.
type preconditions struct {
	revision int64
	absent   bool
}

func (p *preconditions) bind(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&p.revision, "if-revision", 0, "fail with exit code 4 unless the object has this `revision`")
	if cmd.Name() == "put" {
		cmd.Flags().BoolVar(&p.absent, "if-absent", false, "fail with exit code 4 if the object exists")
	}
}

// given reports whether a flag is set.
func (p *preconditions) given() bool { return p.revision > 0 || p.absent }

// precondition returns nil if no flag is set.
func (p *preconditions) precondition(cmd *cobra.Command) (client.Precondition, error) {
	given := cmd.Flags().Changed("if-revision")
	switch {
	case given && p.absent:
		return nil, usagef("--if-revision and --if-absent are mutually exclusive")
	case given && p.revision < 1:
		return nil, usagef("--if-revision must be at least 1")
	case given:
		return client.IfRevision(p.revision), nil
	case p.absent:
		return client.IfAbsent(), nil
	}
	return nil, nil
}

func isNotFound(err error) bool { return errors.Is(err, client.ErrNotFound) }

// messageFlag adds the flag --message to a command that writes objects.
func messageFlag(cmd *cobra.Command, message *string) {
	cmd.Flags().StringVarP(message, "message", "m", "", "why, as a `text` for the history of the resource")
}

// overwriteFlag adds the flag --overwrite-opaque to a command that writes objects.
func overwriteFlag(cmd *cobra.Command, overwrite *bool) {
	cmd.Flags().BoolVar(overwrite, "overwrite-opaque", false, "replace values that the server cannot decode; they may belong to another program")
}

// skipFlag adds the flag --skip-validation to a command that writes objects.
func skipFlag(cmd *cobra.Command, skip *bool) {
	cmd.Flags().BoolVar(skip, "skip-validation", false, "write although the validation rules of the resource refuse it; requires the right \"skip-validation\"")
}
