// Package reload follows files that an operator changes while the server runs:
// policies, tokens, certificates and keys. A file is looked at again and again rather
// than watched: that works the same for files that are replaced, for links that are
// turned (as Kubernetes does with what it mounts), and over every file system.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
)

// Interval is how often files are looked at.
const Interval = time.Second

// File is a file whose content is in use, or several files that are used together.
type File struct {
	paths []string
	use   func(contents [][]byte) error
	log   *slog.Logger

	// All are of the goroutine that loads and then runs.
	contents [][]byte // the newest that were seen
	usable   bool     // they are in use
	trouble  string   // why they are not, or cannot be seen; empty: all is well
	told     bool     // the trouble has been logged
}

// Load reads the file and has its content used. Use is called again, by Run, for each
// new content. Where it returns an error, what was in use stays so.
func Load(path string, log *slog.Logger, use func(content []byte) error) (*File, error) {
	return LoadAll([]string{path}, log, func(contents [][]byte) error { return use(contents[0]) })
}

// LoadAll does the same with files that are of use only together, such as a
// certificate and its key. Use gets their contents in the order of the paths.
func LoadAll(paths []string, log *slog.Logger, use func(contents [][]byte) error) (*File, error) {
	f := &File{paths: paths, use: use, log: log, usable: true}
	var err error
	if f.contents, err = f.read(); err != nil {
		return nil, err
	}
	if err := use(f.contents); err != nil {
		return nil, fmt.Errorf("use %s: %w", f.name(), err)
	}
	return f, nil
}

// Run follows the file until ctx is done. What cannot be read or used is logged once,
// when that has not changed from one look to the next: a look may come while somebody
// is writing, or between the first and the last of several files.
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
	contents, err := f.read()
	if err != nil {
		f.note("a file cannot be read, what was read before stays in use", err)
		return
	}
	switch same := slices.EqualFunc(contents, f.contents, bytes.Equal); {
	case same && f.usable:
		f.trouble = ""
		return
	case same && f.told:
		return
	case !same:
		f.trouble = ""
	}
	f.contents = contents
	if err := f.use(contents); err != nil {
		f.usable = false
		f.note("a file has changed but cannot be used, what was read before stays in use", err)
		return
	}
	f.usable, f.trouble = true, ""
	f.log.Info("a file has changed and is in use", "file", f.name())
}

// note logs a trouble when it is met for the second time.
func (f *File) note(message string, err error) {
	if f.trouble != err.Error() {
		f.trouble, f.told = err.Error(), false
		return
	}
	if !f.told {
		f.told = true
		f.log.Error(message, "file", f.name(), "error", err)
	}
}

func (f *File) read() ([][]byte, error) {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return contents, nil
}

func (f *File) name() string { return strings.Join(f.paths, ", ") }
