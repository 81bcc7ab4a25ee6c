package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/client/localfile"
)

// saveInterval is how long a position may be held back if no command has run since the last
// one. Each write waits for the disk, and a busy watch moves many times per second.
const saveInterval = time.Second

// PositionFile saves the position of a watch, so that the next process can resume there. The
// saved position is never ahead of the work done: after a crash, changes may be repeated but
// none are missed. Call Close at the end. Safe for concurrent use.
type PositionFile struct {
	Path string
	WatchSpec

	mu      sync.Mutex      // guards the fields below
	saved   client.Position // in the file
	latest  client.Position // to be saved
	pending *time.Timer     // saves latest; nil if nothing is due
	err     error           // from the timer
}

// WatchSpec identifies the watch that a position belongs to. Another watch cannot resume
// there, because it would miss the earlier changes of the objects that only it selects.
type WatchSpec struct {
	Resource string `json:"resource"`
	Prefix   string `json:"prefix,omitempty"`
	Key      string `json:"key,omitempty"`
	Labels   string `json:"labelSelector,omitempty"`
	Fields   string `json:"fieldSelector,omitempty"`
}

// savedPosition is the content of the file.
type savedPosition struct {
	WatchSpec
	Position client.Position `json:"position"`
}

// Load returns the saved position, or the zero position if there is no file. It fails if the
// file belongs to another watch, or cannot be replaced because it is a device, for example.
func (f *PositionFile) Load() (client.Position, error) {
	if err := localfile.Check(f.Path); err != nil {
		return client.Position{}, fmt.Errorf("cannot save positions: %w", err)
	}
	localfile.RemoveTemporaries(f.Path)
	text, err := localfile.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return client.Position{}, nil
	}
	var s savedPosition
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return client.Position{}, fmt.Errorf("cannot read position from %s: %w; delete the file to start over", f.Path, err)
	}
	if s.Resource != f.Resource {
		return client.Position{}, fmt.Errorf("%s has a position of resource %q, want %q", f.Path, s.Resource, f.Resource)
	}
	if s.WatchSpec != f.WatchSpec {
		return client.Position{}, fmt.Errorf("%s has a position of a watch with another path, key or selector; delete the file to start over", f.Path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved, f.latest = s.Position, s.Position
	return s.Position, nil
}

// Save saves a position: before it returns with now, and otherwise within saveInterval. It
// may return the error of an earlier call.
func (f *PositionFile) Save(p client.Position, now bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == f.latest || f.err != nil {
		return f.err
	}
	f.latest = p
	if now || f.saved == (client.Position{}) {
		return f.writeLocked()
	}
	if f.pending == nil {
		f.pending = time.AfterFunc(saveInterval, f.writePending)
	}
	return nil
}

// writePending is the function of the timer.
func (f *PositionFile) writePending() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = f.writeLocked()
}

// Close saves the latest position.
func (f *PositionFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return f.writeLocked()
}

func (f *PositionFile) writeLocked() error {
	if f.pending != nil {
		f.pending.Stop() // if writePending has started, it will find nothing to do
		f.pending = nil
	}
	if f.latest == f.saved {
		return nil
	}
	text, err := json.Marshal(savedPosition{f.WatchSpec, f.latest})
	if err == nil {
		err = localfile.Replace(f.Path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("cannot save position: %w", err)
	}
	f.saved = f.latest
	return nil
}
