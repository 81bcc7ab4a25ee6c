package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func editCommand(t *tool) *cobra.Command {
	var create, overwrite bool
	var message string
	cmd := &cobra.Command{
		Use:   "edit RESOURCE KEY",
		Short: "Edit the value of an object",
		Long: `Edit the value of an object; saves it only if it has not changed meanwhile.

The editor is the first of FANOUTCTL_EDITOR, VISUAL and EDITOR that is set, or else vi.

The value is saved if the editor exits successfully and the object is still at the same
revision. Otherwise the edited file is kept and its path is printed; the exit code is 4 if
the object has changed. JSON is validated first. An unchanged value is not saved; a
trailing newline added by the editor is ignored.

The object keeps its time to live. Use "put" to set or remove it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := t.client.Resource(args[0]).JSONValues().Because(message)
			return t.edit(cmd.Context(), r, keyOf(args[1]), create, overwrite)
		},
	}
	overwriteFlag(cmd, &overwrite)
	messageFlag(cmd, &message)
	cmd.Flags().BoolVar(&create, "create", false, "create the object if it does not exist")
	return cmd
}

func (t *tool) edit(ctx context.Context, r *client.Resource, key string, create, overwrite bool) error {
	readCtx, cancel := t.withTimeout(ctx, requestTimeout)
	defer cancel()
	old, err := r.Get(readCtx, key)
	switch {
	case isNotFound(err) && create:
		old = &client.Object{Key: key}
	case err != nil:
		return t.explainMissing(readCtx, r, key, err)
	case old.Undecryptable():
		return exitError{exitConflict, fmt.Errorf("the server cannot decrypt the value of %q; replace it with put --overwrite-opaque", key)}
	case old.Opaque && !overwrite:
		return exitError{exitConflict, fmt.Errorf("the server cannot decode the value of %q, which may belong to another program; use --overwrite-opaque to replace it", key)}
	}
	file, err := editFile(old)
	if err != nil {
		return fmt.Errorf("cannot write the file to edit: %w", err)
	}
	edited, err := t.runEditor(file)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t.abandoned(ctx, err, file, old)
	}
	if unchanged(edited, old) {
		os.Remove(file)
		fmt.Fprintln(t.stderr, "No changes made.")
		return nil
	}
	if document.IsJSON(old.ContentType) && !json.Valid(edited) {
		return inputError(fmt.Errorf("invalid JSON; the edited value is in %s: fix it and save it with put --file", file))
	}
	writeCtx, cancel := t.withTimeout(ctx, requestTimeout)
	defer cancel()
	contentType := old.ContentType
	guessed := old.ModRevision == 0 || old.Opaque
	if guessed {
		contentType, _ = document.TypeOf(key, edited) // what only looks like JSON is text
	}
	v := client.Text(string(edited)).WithContentType(contentType).WithLabels(old.Labels)
	opts := []client.WriteOption{client.IfRevision(old.ModRevision), client.KeepTTL()}
	if overwrite {
		opts = append(opts, client.OverwriteOpaque())
	}
	revision, err := r.Put(writeCtx, key, v, opts...)
	switch {
	case guessed && contentType != "" && transfer.RefusesField(err, "content_type"):
		revision, err = r.Put(writeCtx, key, v.WithContentType(""), opts...)
	case len(old.Labels) > 0 && transfer.RefusesField(err, "labels"):
		// The server derives them from the value.
		revision, err = r.Put(writeCtx, key, v.WithLabels(nil), opts...)
	}
	if errors.Is(err, client.ErrPreconditionFailed) {
		return exitError{exitConflict, fmt.Errorf("%q has changed meanwhile; the edited value is in %s: compare it with \"fanoutctl get %s %s\"",
			key, file, r.Name(), key)}
	}
	if err != nil {
		return t.keptFile(ctx, err, file)
	}
	os.Remove(file)
	fmt.Fprintln(t.out, revision)
	return nil
}

// unchanged reports whether the edited value equals the old one, apart from a trailing
// newline that many editors add.
func unchanged(edited []byte, old *client.Object) bool {
	return old.ModRevision != 0 && (bytes.Equal(edited, old.Value) || bytes.Equal(edited, append(bytes.Clone(old.Value), '\n')))
}

// abandoned returns the error for an edit that is not saved. It removes the file only if
// the file is unchanged.
func (t *tool) abandoned(ctx context.Context, err error, file string, old *client.Object) error {
	switch edited, readErr := os.ReadFile(file); {
	case errors.Is(readErr, fs.ErrNotExist):
		return err
	case readErr == nil && bytes.Equal(edited, old.Value):
		os.Remove(file)
		return err
	}
	return t.keptFile(ctx, err, file)
}

// keptFile adds the path of the edited file to err.
func (t *tool) keptFile(ctx context.Context, err error, file string) error {
	code := exitCode(ctx, err)
	return exitError{code, fmt.Errorf("%s; the edited value is in %s", t.explain(code, err), file)}
}

// editFile writes the value to a new file. The extension tells the editor the file type.
func editFile(o *client.Object) (string, error) {
	extension := path.Ext(o.Key)
	if extension == "" || strings.ContainsAny(extension, " *") {
		switch media, _, _ := strings.Cut(o.ContentType, ";"); {
		case document.IsJSON(media):
			extension = ".json"
		case strings.HasSuffix(media, "yaml"):
			extension = ".yaml"
		default:
			extension = ".txt"
		}
	}
	f, err := os.CreateTemp("", "fanoutctl-*"+extension)
	if err != nil {
		return "", err
	}
	_, err = f.Write(o.Value)
	return f.Name(), errors.Join(err, f.Close())
}

// runEditor runs the editor and returns the content of the file afterwards. It never kills
// the editor, which may hold unsaved changes and must restore the terminal.
func (t *tool) runEditor(file string) ([]byte, error) {
	line := cmp.Or(t.vars[envPrefix+"EDITOR"], t.vars["VISUAL"], t.vars["EDITOR"], shell.DefaultEditor)
	cmd := shell.Editor(line, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = t.in, t.stdout, t.stderr, t.environ
	interrupts.setEditorRunning(true)
	err := cmd.Run()
	interrupts.setEditorRunning(false)
	if err != nil {
		return nil, fmt.Errorf("editor %q failed: %w; nothing was saved", line, err)
	}
	edited, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the edited file: %w", err)
	}
	return edited, nil
}
