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
	Path     string
	Resource string
}

// saved is what is in the file.
type saved struct {
	Resource string          `json:"resource"`
	Position client.Position `json:"position"`
}

// Load returns where to go on; the zero position if there is no file yet. A file of
// another resource is refused: it is a mistake.
func (f File) Load() (client.Position, error) {
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
	return s.Position, nil
}

// Save replaces the file.
func (f File) Save(p client.Position) error {
	text, err := json.Marshal(saved{f.Resource, p})
	if err == nil {
		err = renameio.WriteFile(f.Path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	return nil
}
