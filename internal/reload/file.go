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

// file is a file in use, or several files that are used together.
type file struct {
	paths []string
	use   func(contents [][]byte) error
	log   *slog.Logger

	checks chan chan struct{} // requests of check; run closes the received channel after the poll

	// The fields below belong to the goroutine that calls Files.LoadAll and then run.

	contents [][]byte // as of the last successful read
	usable   bool     // contents are in use
	problem  string   // the last error of reading or using the files; empty: none
	logged   bool     // the problem has been logged
}

func (f *file) run(ctx context.Context, changed func()) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.poll(false, changed)
		case done := <-f.checks:
			f.poll(true, changed)
			close(done)
		case <-ctx.Done():
			return
		}
	}
}

func (f *file) check(ctx context.Context) {
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

func (f *file) poll(requested bool, changed func()) {
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
	changed()
	f.log.Info("file has changed and is in use", "file", f.name())
}

// report logs a problem when it occurs for the second time in a row, or if the poll was
// requested.
func (f *file) report(message string, err error, requested bool) {
	isNew := f.problem != err.Error()
	if isNew {
		f.problem, f.logged = err.Error(), false
	}
	if requested || !isNew && !f.logged {
		f.logged = true
		f.log.Error(message, "file", f.name(), "error", err)
	}
}

func (f *file) read() ([][]byte, error) {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return contents, nil
}

func (f *file) name() string { return strings.Join(f.paths, ", ") }
