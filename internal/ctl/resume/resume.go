// Package resume keeps in a file where a watch is, so that the next one goes on
// there.
package resume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"github.com/fanoutd/fanoutd/client"
)

// File is such a file.
type File struct {
	Path string
	Watch
	kept client.Position // what is in it
}

// Watch is what a position is of. Another watch could not go on there: who has not
// looked at an object has not seen what happened to it either.
type Watch struct {
	Resource string `json:"resource"`
	Prefix   string `json:"prefix,omitempty"`
	Key      string `json:"key,omitempty"`
	Labels   string `json:"labelSelector,omitempty"`
	Fields   string `json:"fieldSelector,omitempty"`
}

// saved is what is in the file.
type saved struct {
	Watch
	Position client.Position `json:"position"`
}

// Load returns where to go on; the zero position if there is no file yet. A file of
// another watch is refused: it is a mistake.
func (f *File) Load() (client.Position, error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return client.Position{}, nil
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return client.Position{}, fmt.Errorf("read the position in %s: %w; without the file the watch begins anew", f.Path, err)
	}
	if s.Resource != f.Resource {
		return client.Position{}, fmt.Errorf("%s has a position of the resource %q, not of %q", f.Path, s.Resource, f.Resource)
	}
	if s.Watch != f.Watch {
		return client.Position{}, fmt.Errorf("%s has a position of a watch with another path, key or selector; without the file the watch begins anew", f.Path)
	}
	f.kept = s.Position
	return s.Position, nil
}

// Save replaces the file, if the position is another one.
func (f *File) Save(p client.Position) error {
	if p == f.kept {
		return nil
	}
	text, err := json.Marshal(saved{f.Watch, p})
	if err == nil {
		err = renameio.WriteFile(f.Path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	f.kept = p
	return nil
}
