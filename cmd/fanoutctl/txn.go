package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

const txnLong = `Apply several operations at one revision, or none of them. The operations come from FILE,
from standard input ("-"), or from flags. FILE is a list in YAML or JSON:

  - put: shop/limits
    value: {rps: 200}       # JSON; or text, or data in base64
    labels: {team: web}
    ifRevision: 12          # optional; or ifAbsent: true
  - delete: shop/old
  - check: shop/owner       # writes nothing, but requires the revision
    ifRevision: 7

A put may also have contentType, ttl (such as 30s), keepTtl: true or overwriteOpaque: true.
Each key may occur once.
If a precondition does not hold, nothing is written and the exit code is 4.`

const txnExample = `  # Apply the operations of a file
  fanoutctl txn config changes.yaml

  # Move an object, unless another client has changed it
  fanoutctl txn config - <<END
  - put: shop/new
    value: {rps: 100}
    ifAbsent: true
  - delete: shop/old
    ifRevision: 12
  END

  # The same kinds of operations as flags
  fanoutctl txn config --put 'shop/limits={"rps": 200}' --delete shop/old --check shop/owner=7`

// txnResult is the result of a transaction, as shown in JSON and YAML.
type txnResult struct {
	Revision   int64          `json:"revision"`
	Operations []txnOperation `json:"operations"`
}

// txnOperation is what one operation did.
type txnOperation struct {
	Operation string `json:"operation"`
	Key       string `json:"key"`
	Result    string `json:"result"` // written, deleted, not-found or unchanged
}

func txnCommand(t *tool) *cobra.Command {
	var (
		format                output.Format
		puts, deletes, checks []string
		overwrite             bool
		message               string
	)
	cmd := &cobra.Command{
		Use:     "txn RESOURCE [FILE]",
		Short:   "Apply several operations, or none of them",
		Long:    txnLong,
		Example: txnExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := len(puts)+len(deletes)+len(checks) > 0
			var operations []document.Operation
			var err error
			switch {
			case flags && len(args) == 2:
				return usagef("FILE cannot be combined with --put, --delete or --check")
			case flags:
				operations, err = flagOperations(puts, deletes, checks)
			case len(args) == 2:
				operations, err = t.fileOperations(cmd.Context(), args[1])
			case !isTerminal(t.in):
				operations, err = t.fileOperations(cmd.Context(), "-")
			default:
				return usagef("no operations; name a FILE, or use --put, --delete or --check")
			}
			if err != nil {
				return err
			}
			if len(operations) == 0 {
				return usagef("no operations: the input is empty")
			}
			for i := range operations {
				operations[i].OverwriteOpaque = operations[i].OverwriteOpaque || overwrite && operations[i].Put != ""
			}
			return t.transact(cmd, t.client.Resource(args[0]).Because(message), operations, format)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&puts, "put", nil, "write an object, as `key=value`; can be repeated")
	f.StringArrayVar(&deletes, "delete", nil, "delete the object with this `key`; can be repeated")
	f.StringArrayVar(&checks, "check", nil, "require a revision, as `key=revision`; 0 means that the object is absent; can be repeated")
	overwriteFlag(cmd, &overwrite)
	messageFlag(cmd, &message)
	formatFlag(cmd, &format, output.Table)
	return cmd
}

// fileOperations reads the operations of a file, or of standard input.
func (t *tool) fileOperations(ctx context.Context, path string) ([]document.Operation, error) {
	name, format := path, document.Auto
	var text []byte
	var err error
	if path == "-" {
		name = "standard input"
		text, err = pipe.ReadAll(ctx, t.in)
	} else {
		text, err = pipe.ReadFile(ctx, path)
	}
	if err != nil {
		return nil, inputError(fmt.Errorf("cannot read the operations: %w", err))
	}
	if e := filepath.Ext(path); e == ".yaml" || e == ".yml" {
		format = document.YAML
	}
	operations, err := document.Operations(name, text, format)
	if err != nil {
		return nil, inputError(err)
	}
	return operations, nil
}

// flagOperations returns the operations of the flags.
func flagOperations(puts, deletes, checks []string) ([]document.Operation, error) {
	var all []document.Operation
	for _, arg := range puts {
		key, value, ok := strings.Cut(arg, "=")
		if key = keyOf(key); !ok || key == "" {
			return nil, usagef("--put: invalid value %q (want key=value)", arg)
		}
		contentType, _ := document.TypeOf("", []byte(value)) // what only looks like JSON is text
		all = append(all, document.Operation{Put: key, Content: document.NewContent(contentType, []byte(value))})
	}
	for _, key := range deletes {
		if key = keyOf(key); key == "" {
			return nil, usagef("--delete requires a key")
		}
		all = append(all, document.Operation{Delete: key})
	}
	for _, arg := range checks {
		// A key may contain an equals sign, a revision may not.
		i := strings.LastIndexByte(arg, '=')
		revision, err := strconv.ParseInt(arg[i+1:], 10, 64)
		if i < 1 || err != nil || revision < 0 {
			return nil, usagef("--check: invalid value %q (want key=revision)", arg)
		}
		o := document.Operation{Check: keyOf(arg[:i]), IfAbsent: revision == 0}
		if revision > 0 {
			o.IfRevision = &revision
		}
		all = append(all, o)
	}
	return all, nil
}

// transact applies the operations and prints what each of them did.
func (t *tool) transact(cmd *cobra.Command, r *client.Resource, operations []document.Operation, format output.Format) error {
	ctx, cancel := t.withTimeout(cmd.Context(), requestTimeout)
	defer cancel()
	for i := range operations {
		o := &operations[i]
		o.Put, o.Delete, o.Check = keyOf(o.Put), keyOf(o.Delete), keyOf(o.Check)
		if o.Key() == "" {
			return usagef("an operation has an empty key (leading slashes do not count)")
		}
	}
	done, err := r.Transact(ctx, opsOf(operations)...)
	if cmd.Flags().Changed("put") && transfer.RefusesField(err, "content_type") {
		for i := range operations {
			operations[i].ContentType = "" // it was only guessed
		}
		done, err = r.Transact(ctx, opsOf(operations)...)
	}
	if e, ok := errors.AsType[*client.Error](err); ok && errors.Is(err, client.ErrPreconditionFailed) {
		return exitError{exitConflict, fmt.Errorf("nothing was written: %s", conflict(e))}
	}
	if err != nil {
		return err
	}
	result := txnResult{Revision: done.Revision}
	for i, o := range operations {
		did := map[string]string{"put": "written", "check": "unchanged", "delete": "not-found"}[o.Kind()]
		if i < len(done.Deleted) && done.Deleted[i] {
			did = "deleted"
		}
		result.Operations = append(result.Operations, txnOperation{o.Kind(), o.Key(), did})
	}
	if format.IsRecord() {
		return t.printer(format).Record(result)
	}
	return output.Records(t.printer(format), []output.Column[txnOperation]{
		{Title: "KEY", Cell: func(o txnOperation) string { return o.Key }, Style: output.Name},
		{Title: "OPERATION", Cell: func(o txnOperation) string { return o.Operation }},
		{Title: "RESULT", Cell: func(o txnOperation) string { return o.Result }},
		{Title: "REVISION", Cell: func(txnOperation) string { return strconv.FormatInt(result.Revision, 10) }, Right: true},
	}, result.Operations)
}

func opsOf(operations []document.Operation) []client.Op {
	ops := make([]client.Op, len(operations))
	for i, o := range operations {
		ops[i] = o.Op()
	}
	return ops
}
