package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
	"github.com/fanoutd/fanoutd/internal/object"
)

// statusOf returns what a server says about a resource. It is not found if the caller may not know it.
func statusOf(ctx context.Context, server string, c *client.Client, resource string) (status admin.Resource, found bool) {
	all, _ := admin.New(server, c).Resources(ctx, false)
	i := slices.IndexFunc(all, func(r admin.Resource) bool { return r.Name == resource && r.Codec != "" })
	if i < 0 {
		return admin.Resource{}, false
	}
	return all[i], true
}

// derivesLabels returns a function that asks the server, once, whether the codec of a resource derives the
// labels from the values. If the caller may not know the codec, it is taken for the default one.
func (t *tool) derivesLabels(ctx context.Context, resource string) func() bool {
	return derivesLabels(ctx, t.settings.Server, t.client, resource)
}

// derivesLabels is [tool.derivesLabels] for any server.
func derivesLabels(ctx context.Context, server string, c *client.Client, resource string) func() bool {
	return sync.OnceValue(func() bool {
		status, found := statusOf(ctx, server, c, resource)
		return found && !object.StoresLabels(status.Codec)
	})
}

// hasNoRules reports whether the server says that a resource has no validation rules. If the caller may not know, it is
// taken for one with rules.
func (t *tool) hasNoRules(ctx context.Context, resource string) bool {
	status, found := statusOf(ctx, t.settings.Server, t.client, resource)
	return found && status.Validation == nil
}

// refusals asks the server which changes its validation rules refuse, and returns the error for each, or nil.
func (t *tool) refusals(ctx context.Context, resource string, changes []transfer.Change, overwrite bool) ([]error, error) {
	none := make([]error, len(changes))
	if len(changes) == 0 {
		return none, nil
	}
	status, found := statusOf(ctx, t.settings.Server, t.client, resource)
	if found && status.Validation == nil { // this request replaces those for all changes
		return none, nil
	}
	var opts []client.WriteOption
	if overwrite {
		opts = append(opts, client.OverwriteOpaque())
	}
	scope := transfer.Scope{DerivedLabels: func() bool { return found && !object.StoresLabels(status.Codec) }}
	return scope.ValidateChanges(ctx, t.client.Resource(resource), changes, opts...)
}

// printRefusals prints the faults of changes, and returns how many changes have some. A fault has the place of its document, the
// key, and the JSON pointer.
func printRefusals(w io.Writer, changes []transfer.Change, refusals []error) (refused int) {
	w = output.Visible(w)
	for i, err := range refusals {
		if err == nil {
			continue
		}
		refused++
		c := &changes[i]
		key := c.Key
		if c.Action == transfer.Delete {
			key = "delete " + key
		}
		e, ok := errors.AsType[*client.Error](err)
		if !ok || len(e.Violations) == 0 {
			fmt.Fprintf(w, "%s%s: %v\n", placeIn(c.New, ""), key, err)
			continue
		}
		for _, v := range slices.SortedStableFunc(slices.Values(e.Violations), func(a, b client.Violation) int { return cmp.Compare(a.Field, b.Field) }) {
			where, pointer := v.Field, ""
			if e.Reason == client.ErrValueRefused {
				where = "" // without a pointer, the fault is one of the whole value
				if _, rest, ok := strings.Cut(v.Field, "/"); ok && rest != "" {
					pointer = "/" + rest
					where = pointer
				}
			}
			fmt.Fprintf(w, "%s%s: %s\n", placeIn(c.New, pointer), key, strings.TrimLeft(where+" "+v.Description, " "))
		}
	}
	return refused
}

// placeIn begins a line about a document that was read from a file.
func placeIn(d *document.Document, pointer string) string {
	if d == nil || d.Place(pointer) == "" {
		return ""
	}
	return d.Place(pointer) + ": "
}
