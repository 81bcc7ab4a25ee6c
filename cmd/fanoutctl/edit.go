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
	"os/exec"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func editCommand(t *tool) *cobra.Command {
	var create bool
	cmd := &cobra.Command{
		Use:   "edit RESOURCE KEY",
		Short: "Change the value of an object in an editor",
		Long: `Open the value of an object in an editor and write what the editor has saved. The
editor is what FANOUTCTL_EDITOR, VISUAL or EDITOR says, or else vi.

The write happens only if nobody has changed the object meanwhile, and if the editor
ends with success. If it is not made, what you have written stays in a file, which the
message names; the exit code is then 4 if somebody has changed the object. A value that
is not changed is not written; a line break that an editor has put behind the last line
is no change. JSON is checked before it is written.

A time to live is not kept: what is written stays until somebody deletes it. "put --ttl"
writes a value with another one.`,
		Args:              arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: t.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := t.resource(args[0])
			if err != nil {
				return err
			}
			return t.edit(cmd.Context(), r, args[1], create)
		},
	}
	cmd.Flags().BoolVar(&create, "create", false, "begin with an empty value if there is no such object")
	return cmd
}

func (t *tool) edit(ctx context.Context, r *client.Resource, key string, create bool) error {
	reading, cancel := t.withTimeout(ctx, usual)
	defer cancel()
	old, err := r.Get(reading, key)
	switch {
	case isNotFound(err) && create:
		old = &client.Object{Key: key}
	case err != nil:
		return err
	case old.Opaque:
		return fmt.Errorf("the value of %q is not what its resource expects; write another with put", key)
	}
	file, err := editFile(old)
	if err != nil {
		return fmt.Errorf("write the value for the editor: %w", err)
	}
	edited, err := t.editor(file)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t.abandoned(ctx, err, file, old)
	}
	if unchanged(edited, old) {
		os.Remove(file)
		fmt.Fprintln(t.stderr, "Nothing was changed.")
		return nil
	}
	if document.IsJSON(old.ContentType) && !json.Valid(edited) {
		return fmt.Errorf("this is no JSON; it is kept in %s: put it with --file when it is", file)
	}
	writing, cancel := t.withTimeout(ctx, usual)
	defer cancel()
	contentType := old.ContentType
	if old.ModRevision == 0 {
		contentType = t.guess(writing, r.Name(), key, edited)
	}
	v := transfer.Value(edited, contentType, true)
	if takesLabels(t.codec(writing, r.Name())) {
		v = v.WithLabels(old.Labels)
	}
	revision, err := r.Put(writing, key, v, client.IfRevision(old.ModRevision))
	if errors.Is(err, client.ErrPreconditionFailed) {
		return exitError{exitConflict, fmt.Errorf("%q was changed by somebody else meanwhile; what you have written is in %s: compare it with \"fanoutctl get %s %s\"",
			key, file, r.Name(), key)}
	}
	if err != nil {
		return t.kept(ctx, err, file)
	}
	os.Remove(file)
	_, err = fmt.Fprintln(t.out, revision)
	return err
}

// unchanged reports whether the editor has left the value as it was. Many put a line
// break behind a last line that has none, which nobody has asked for.
func unchanged(edited []byte, old *client.Object) bool {
	return old.ModRevision != 0 && (bytes.Equal(edited, old.Value) || bytes.Equal(edited, append(bytes.Clone(old.Value), '\n')))
}

// abandoned is the error for an edit that is not written. The file is removed only if
// nothing was written to it.
func (t *tool) abandoned(ctx context.Context, err error, file string, old *client.Object) error {
	switch edited, failed := os.ReadFile(file); {
	case errors.Is(failed, fs.ErrNotExist):
		return err
	case failed == nil && bytes.Equal(edited, old.Value):
		os.Remove(file)
		return err
	}
	return t.kept(ctx, err, file)
}

// kept says what went wrong, and where what was written is.
func (t *tool) kept(ctx context.Context, err error, file string) error {
	code := exitCode(ctx, err)
	return exitError{code, fmt.Errorf("%s; what you have written is in %s", t.explain(code, err), file)}
}

// editFile returns a new file with the value. Its name ends so that editors know
// what it is.
func editFile(o *client.Object) (string, error) {
	ending := path.Ext(o.Key)
	if ending == "" || strings.ContainsAny(ending, " *") {
		switch media, _, _ := strings.Cut(o.ContentType, ";"); {
		case document.IsJSON(media):
			ending = ".json"
		case strings.HasSuffix(media, "yaml"):
			ending = ".yaml"
		default:
			ending = ".txt"
		}
	}
	f, err := os.CreateTemp("", "fanoutctl-*"+ending)
	if err != nil {
		return "", err
	}
	_, err = f.Write(o.Value)
	return f.Name(), errors.Join(err, f.Close())
}

// editor has a file edited and returns what is in it then. It is never killed: there
// is something in it that is not saved, and it must leave the terminal as it was.
func (t *tool) editor(file string) ([]byte, error) {
	line := cmp.Or(t.vars[envPrefix+"EDITOR"], t.variable("VISUAL"), t.variable("EDITOR"), "vi")
	// The line may have arguments, and is for the shell to take apart.
	cmd := exec.Command("sh", "-c", line+` "$@"`, line, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = t.in, t.stdout, t.stderr, t.environ
	stopping.give(true)
	err := cmd.Run()
	stopping.give(false)
	if err != nil {
		return nil, fmt.Errorf("the editor %q: %w; nothing was written", line, err)
	}
	edited, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what the editor has saved: %w", err)
	}
	return edited, nil
}
