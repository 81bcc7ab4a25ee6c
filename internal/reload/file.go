// Package reload follows files that an operator changes while the server runs:
// policies, tokens and keys. A file is looked at again and again rather than watched:
// that works the same for files that are replaced, for links that are turned (as
// Kubernetes does with what it mounts), and over every file system.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Interval is how often files are looked at.
const Interval = time.Second

// File is a file whose content is in use.
type File struct {
	path string
	use  func(content []byte) error
	log  *slog.Logger

	// Both are of the goroutine that loads and then runs.
	content []byte // the newest that was seen, be it usable or not
	failed  string // why the file could not be read the last time it was tried
}

// Load reads the file and has its content used. Use is called again, by Run, for each
// new content. Where it returns an error, what was in use stays so.
func Load(path string, log *slog.Logger, use func(content []byte) error) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := use(content); err != nil {
		return nil, fmt.Errorf("use %s: %w", path, err)
	}
	return &File{path: path, use: use, log: log, content: content}, nil
}

// Run follows the file until ctx is done. What cannot be read or used is logged once.
func (f *File) Run(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.look()
		case <-ctx.Done():
			return
		}
	}
}

func (f *File) look() {
	content, err := os.ReadFile(f.path)
	if err != nil {
		if err.Error() != f.failed {
			f.log.Error("a file cannot be read, what was read before stays in use", "file", f.path, "error", err)
		}
		f.failed = err.Error()
		return
	}
	f.failed = ""
	if bytes.Equal(content, f.content) {
		return
	}
	f.content = content
	if err := f.use(content); err != nil {
		f.log.Error("a file has changed but cannot be used, what was read before stays in use", "file", f.path, "error", err)
		return
	}
	f.log.Info("a file has changed and is in use", "file", f.path)
}
