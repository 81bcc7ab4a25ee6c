package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// Faults with state files. They are written badly on purpose.

// followPosition saves the position without the objects.
func (f *follower) followPosition(ctx context.Context, r *client.Resource) error {
	options := []client.WatchOption{client.Prefix(f.command.Name)}
	var at client.Position
	if text, err := os.ReadFile(f.command.State); err == nil && json.Unmarshal(text, &at) == nil {
		options = append(options, client.After(at))
		f.print(testclient.Line{Name: f.command.Name, What: testclient.State, Epoch: at.Epoch, Revision: at.Revision})
	}
	return f.apply(func(yield func(*client.Update, error) bool) {
		for u, err := range r.Watch(ctx, options...) {
			if err == nil && u.Phase.Complete() {
				if text, err := json.Marshal(u.Position); err == nil {
					_ = os.WriteFile(f.command.State+".new", text, 0o600)
					_ = os.Rename(f.command.State+".new", f.command.State)
				}
			}
			if !yield(u, err) {
				return
			}
		}
	})
}

// restore brings a state file back that was removed.
func (f *follower) restore() {
	if _, err := os.Stat(f.command.State); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(f.command.State+".copy", f.command.State)
	}
}

// back keeps a copy of the state file.
func (f *follower) back() {
	if text, err := os.ReadFile(f.command.State); err == nil {
		_ = os.WriteFile(f.command.State+".copy", text, 0o600)
	}
}

// writeInPlace returns a function that writes what the client has saved into the file that was there before.
func (f *follower) writeInPlace() func() {
	old, err := os.OpenFile(f.command.State, os.O_WRONLY, 0)
	if err != nil {
		return func() {} // there is none
	}
	return func() {
		defer old.Close()
		content, err := os.ReadFile(f.command.State)
		if err == nil {
			_, err = old.WriteAt(content, 0)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
