package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// file is a file in use, or several files that are used together.
type file struct {
	paths []string
	names func(content []byte) []string // further files that the content of the first names; nil: none
	use   func(contents [][]byte) error
	log   *slog.Logger

	shown atomic.Pointer[string] // the problem that was logged; nil: none

	checks chan chan struct{} // requests of check; run closes the received channel after the poll

	// The fields below belong to the goroutine that calls Files.LoadAll and then run.

	contents [][]byte // as of the last successful read
	awaited  [][]byte // as of the last poll, if it has found others than contents and has not used them yet
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
	last := f.awaited
	f.awaited = nil
	if err != nil {
		f.report("cannot read file, keeping the content in use", err, requested)
		return
	}
	same := slices.EqualFunc(contents, f.contents, bytes.Equal)
	// The first half of such a file may be valid, so it must not change for the time between two polls.
	settles := f.names != nil && !same && !requested
	switch {
	case same && f.usable:
		f.problem = ""
		f.shown.Store(nil)
		return
	case same && f.logged && !requested:
		return
	case !same:
		f.problem = ""
	}
	if settles && !slices.EqualFunc(contents, last, bytes.Equal) {
		f.awaited = contents
		return
	}
	f.contents = contents
	if err := f.use(contents); err != nil {
		f.usable = false
		f.report("cannot use changed file, keeping the content in use", err, requested || settles)
		return
	}
	f.usable, f.problem = true, ""
	f.shown.Store(nil)
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
		f.shown.Store(new(f.problem))
		f.log.Error(message, "file", f.name(), "error", err)
	}
}

func (f *file) read() (contents [][]byte, err error) {
	paths := f.paths
	for i := 0; i < len(paths); i++ {
		content, err := os.ReadFile(paths[i])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", paths[i], err)
		}
		contents = append(contents, content)
		if i == 0 && f.names != nil {
			paths = append(paths[:1:1], f.names(content)...)
		}
	}
	return contents, nil
}

func (f *file) name() string { return strings.Join(f.paths, ", ") }
