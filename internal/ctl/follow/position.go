// Package resume keeps in a file where a watch is, so that the next one goes on
// there.
package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/fanoutd/fanoutd/client"
)

// interval is how long a position may wait for the file, where nothing was done that
// must not be done again. Each time the file is replaced the disk is waited for, and a
// busy watch moves many times in a second.
const interval = time.Second

// PositionFile is such a file. What is in it is never ahead of what was done: a watch that goes
// on there may be told something twice, but misses nothing. It may be used by several
// goroutines at once, and must be closed.
type PositionFile struct {
	Path string
	WatchSpec

	mu      sync.Mutex      // guards what follows
	kept    client.Position // what is in the file
	latest  client.Position // what is to be in it
	pending *time.Timer     // writes latest; nil if nothing waits
	err     error           // of the timer
}

// WatchSpec is what a position is of. Another watch could not go on there: who has not
// looked at an object has not seen what happened to it either.
type WatchSpec struct {
	Resource string `json:"resource"`
	Prefix   string `json:"prefix,omitempty"`
	Key      string `json:"key,omitempty"`
	Labels   string `json:"labelSelector,omitempty"`
	Fields   string `json:"fieldSelector,omitempty"`
}

// savedPosition is what is in the file.
type savedPosition struct {
	WatchSpec
	Position client.Position `json:"position"`
}

// Load returns where to go on; the zero position if there is no file yet. A file of
// another watch is refused: it is a mistake.
func (f *PositionFile) Load() (client.Position, error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return client.Position{}, nil
	}
	var s savedPosition
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return client.Position{}, fmt.Errorf("read the position in %s: %w; without the file the watch begins anew", f.Path, err)
	}
	if s.Resource != f.Resource {
		return client.Position{}, fmt.Errorf("%s has a position of the resource %q, not of %q", f.Path, s.Resource, f.Resource)
	}
	if s.WatchSpec != f.WatchSpec {
		return client.Position{}, fmt.Errorf("%s has a position of a watch with another path, key or selector; without the file the watch begins anew", f.Path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept, f.latest = s.Position, s.Position
	return s.Position, nil
}

// Keep has a position kept: at once if anything was done since the last one that should
// not be done twice, and otherwise within a second. An error may be that of an earlier
// position.
func (f *PositionFile) Save(p client.Position, done bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == f.latest || f.err != nil {
		return f.err
	}
	f.latest = p
	if done || f.kept == (client.Position{}) {
		return f.write()
	}
	if f.pending == nil {
		f.pending = time.AfterFunc(interval, f.due)
	}
	return nil
}

// due writes what waits. It runs in a goroutine of its own.
func (f *PositionFile) due() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = f.write()
}

// Close writes what waits.
func (f *PositionFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return f.write()
}

// write replaces the file, if another position is in it. mu is held.
func (f *PositionFile) write() error {
	if f.pending != nil {
		f.pending.Stop() // if it has begun already, it finds nothing to do
		f.pending = nil
	}
	if f.latest == f.kept {
		return nil
	}
	text, err := json.Marshal(savedPosition{f.WatchSpec, f.latest})
	if err == nil {
		err = renameio.WriteFile(f.Path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	f.kept = f.latest
	return nil
}
