// Package reload follows files that an operator changes while the server runs: policies,
// tokens, certificates and keys.
//
// [Load] reads a file and passes its content to a function. [File.Run] then polls the
// file, and passes every new content to the same function. If the function returns an
// error, the content before stays in use. [File.Check] polls the file at once. A [Value] keeps
// what such a function has parsed.
//
// Files are polled instead of watched. Polling works the same on every file system, for
// files that are replaced, and for symbolic links that move to another target, as in
// volumes of Kubernetes.
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

// Interval is the time between two polls of a file.
const Interval = time.Second

// File is a file in use, or several files that are used together.
type File struct {
	paths []string
	use   func(contents [][]byte) error
	log   *slog.Logger

	checks chan chan struct{} // requests of Check; Run closes the received channel after the poll

	// The fields below belong to the goroutine that calls Load and then Run.

	contents [][]byte // as of the last successful read
	usable   bool     // contents are in use
	problem  string   // the last error of reading or using the files; empty: none
	logged   bool     // the problem has been logged
}

// Load reads the file and passes its content to use. Run calls use again for each new
// content. If use returns an error then, the content before stays in use.
func Load(path string, log *slog.Logger, use func(content []byte) error) (*File, error) {
	return LoadAll([]string{path}, log, func(contents [][]byte) error { return use(contents[0]) })
}

// LoadAll is like [Load] for files that are used only together, such as a certificate and
// its key. Use gets their contents in the order of the paths.
func LoadAll(paths []string, log *slog.Logger, use func(contents [][]byte) error) (*File, error) {
	f := &File{paths: paths, use: use, log: log, checks: make(chan chan struct{}), usable: true}
	var err error
	if f.contents, err = f.read(); err != nil {
		return nil, err
	}
	if err := use(f.contents); err != nil {
		return nil, fmt.Errorf("use %s: %w", f.name(), err)
	}
	return f, nil
}

// Run follows the file until ctx is done. It logs a problem once, and only if two polls in
// a row meet it: a single poll may come while a file is being written, or between the
// first and the last of several files.
func (f *File) Run(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.poll(false)
		case done := <-f.checks:
			f.poll(true)
			close(done)
		case <-ctx.Done():
			return
		}
	}
}

// Check makes Run poll the file at once, and returns after the poll or when ctx is done. Unlike
// other polls, this one logs a problem even if it is new or has been logged: the caller wants
// to know whether the files can be used now.
func (f *File) Check(ctx context.Context) {
	done := make(chan struct{})
	select {
	case f.checks <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (f *File) poll(requested bool) {
	contents, err := f.read()
	if err != nil {
		f.report("cannot read file, keeping the content in use", err, requested)
		return
	}
	switch same := slices.EqualFunc(contents, f.contents, bytes.Equal); {
	case same && f.usable:
		f.problem = ""
		return
	case same && f.logged && !requested:
		return
	case !same:
		f.problem = ""
	}
	f.contents = contents
	if err := f.use(contents); err != nil {
		f.usable = false
		f.report("cannot use changed file, keeping the content in use", err, requested)
		return
	}
	f.usable, f.problem = true, ""
	f.log.Info("file has changed and is in use", "file", f.name())
}

// report logs a problem when it occurs for the second time in a row, or if the poll was
// requested.
func (f *File) report(message string, err error, requested bool) {
	isNew := f.problem != err.Error()
	if isNew {
		f.problem, f.logged = err.Error(), false
	}
	if requested || !isNew && !f.logged {
		f.logged = true
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
