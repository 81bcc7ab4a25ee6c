package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/object"
)

// keyOf returns the key that an argument names. Keys have no leading slash, but people type it, as in
// paths of files.
func keyOf(arg string) string { return strings.TrimLeft(arg, "/") }

// wrongKey returns why fanoutd would not write an object with this key, or nil. Other programs may have
// written one to etcd, so a wrong key is an error only where there is no such object.
func wrongKey(key string) error {
	_, err := object.ParseKey(key)
	return err
}

// wrongMissingKey returns a usage error if an object that does not exist has a wrong key.
func wrongMissingKey(key string) error {
	if err := wrongKey(key); err != nil {
		return usagef("no such object, and the key is wrong: %w", err)
	}
	return nil
}

// noteWrongKey prints a note if a watch for this key may wait forever.
func (t *tool) noteWrongKey(key string) {
	if key == "" {
		return
	}
	if err := wrongKey(key); err != nil {
		fmt.Fprintf(t.stderr, "fanoutctl: the key %v; only programs that write to etcd directly can create such an object\n", err)
	}
}

// A key looks like a path, so people give one where a command wants the other. Then a read finds nothing and a
// watch waits for ever, without an error. This file notices it. All of its requests are only for messages: if
// they fail, for example because of missing rights, there is no message.

// isKey reports whether an object has this key.
func isKey(ctx context.Context, r *client.Resource, path string) bool {
	_, err := r.Get(ctx, path, client.AllowStale())
	return err == nil
}

// isPath reports whether there are objects below a key.
func isPath(ctx context.Context, r *client.Resource, key string) bool {
	page, err := r.ListPage(ctx, client.Prefix(key), client.PageSize(1), client.AllowStale())
	return err == nil && len(page.Objects) > 0
}

// mixup returns a sentence without a period if the selection has a key where it needs a path or the other way
// round, and "" otherwise.
func (t *tool) mixup(ctx context.Context, r *client.Resource, s *selection) string {
	ctx, cancel := t.withTimeout(ctx, requestTimeout)
	defer cancel()
	below := strings.TrimRight(s.key, "/") // as people write a path
	switch {
	case s.prefix != "" && !isPath(ctx, r, s.prefix) && isKey(ctx, r, s.prefix):
		return fmt.Sprintf("there are no objects below %s, but %q is an object", s.prefix, s.prefix)
	case below != "" && !isKey(ctx, r, s.key) && isPath(ctx, r, below):
		return fmt.Sprintf("there is no object %q, but there are objects below %s", s.key, below)
	}
	return ""
}

// noteMixup prints a note if a command that waits has a key where it needs a path or the other way round. The
// command has the flag --key.
func (t *tool) noteMixup(ctx context.Context, r *client.Resource, s *selection, command string) {
	text := t.mixup(ctx, r, s)
	switch {
	case text == "":
	case s.prefix != "":
		fmt.Fprintf(t.stderr, "fanoutctl: %s: to select it, run \"fanoutctl %s %s --key %s\"\n", text, command, r.Name(), s.prefix)
	default:
		fmt.Fprintf(t.stderr, "fanoutctl: %s: to select them, run \"fanoutctl %s %s %s\"\n", text, command, r.Name(), s.key)
	}
}

// explainMissing returns the error of a command for an object that does not exist, with what to run
// next.
func (t *tool) explainMissing(ctx context.Context, r *client.Resource, key string, err error) error {
	if !isNotFound(err) {
		return err
	}
	text := t.mixup(ctx, r, &selection{key: key})
	switch e, ok := errors.AsType[*client.Error](err); {
	case text != "":
	case !ok || wrongKey(missingKey(err)) != nil:
		return err
	default:
		return exitError{exitNotFound, fmt.Errorf(`object %q not found (at revision %s); run "fanoutctl list %s" to list the objects`, missingKey(err), e.Metadata["revision"], r.Name())}
	}
	return exitError{exitNotFound, fmt.Errorf(`%s: run "fanoutctl list %s %s"`, text, r.Name(), key)}
}

// checkKnown returns an error if there is no object with a key, and the history has none either. If it has writes below the
// key, the caller may have meant a path.
func (t *tool) checkKnown(ctx context.Context, r *client.Resource, key string) error {
	switch _, err := r.Get(ctx, key); {
	case isDenied(err):
		return nil // the right "history" is enough to read one
	case !isNotFound(err):
		return err
	}
	for _, err := range r.History(ctx, client.Key(key), client.HistoryPageSize(1)) {
		return err
	}
	below := strings.TrimRight(key, "/")
	if isPath(ctx, r, below) || wasPath(ctx, r, below) {
		return exitError{exitNotFound, fmt.Errorf("there is no object %q, but there are or were objects below %s; a path ends with a slash: %s/", key, below, below)}
	}
	return exitError{exitNotFound, fmt.Errorf(`object %q %w, and the history has none; run "fanoutctl list %s" to list the objects`, key, errNotFound, r.Name())}
}

// wasPath reports whether the history has writes below a key.
func wasPath(ctx context.Context, r *client.Resource, key string) bool {
	for _, err := range r.History(ctx, client.Prefix(key), client.HistoryPageSize(1)) {
		return err == nil
	}
	return false
}
