// Package reload follows files that an operator changes while the server runs: policies,
// tokens, certificates and keys.
//
// [Files.Load] reads a file and passes its content to a function. [Files.Run] then polls the
// file, and passes every new content to the same function. If the function returns an
// error, the content before stays in use. [Files.Check] polls all files at once.
//
// Files are polled instead of watched. Polling works the same on every file system, for
// files that are replaced, and for symbolic links that move to another target, as in
// volumes of Kubernetes.
package reload

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the time between two polls of a file.
const Interval = time.Second

// Files are files in use. They are loaded before Run.
type Files struct {
	log *slog.Logger
	all []*file
}

// New returns an empty set of files.
func New(log *slog.Logger) *Files { return &Files{log: log} }

// Load reads a file and passes its content to use. Run calls use again for each new
// content. If use returns an error then, the content before stays in use.
func (f *Files) Load(path string, use func(content []byte) error) error {
	return f.LoadAll([]string{path}, func(contents [][]byte) error { return use(contents[0]) })
}

// LoadAll is like Load for files that are used only together, such as a certificate and
// its key. Use gets their contents in the order of the paths.
func (f *Files) LoadAll(paths []string, use func(contents [][]byte) error) error {
	return f.load(&file{paths: paths, use: use})
}

// LoadWith is like Load for a file that names others, which are used with it: names returns their paths. Use
// gets the content of the file, then those of the others. Contents are used when two polls in a row have read them,
// because a part of such a file may be valid, and mean something else; Check uses them at once. Problem returns why the files cannot be used now, as
// the log says; empty: they are in use.
func (f *Files) LoadWith(path string, names func(content []byte) []string, use func(contents [][]byte) error) (problem func() string, err error) {
	one := &file{paths: []string{path}, names: names, use: use}
	problem = func() string {
		if shown := one.shown.Load(); shown != nil {
			return *shown
		}
		return ""
	}
	return problem, f.load(one)
}

func (f *Files) load(one *file) error {
	one.log, one.checks, one.usable = f.log, make(chan chan struct{}), true
	var err error
	if one.contents, err = one.read(); err != nil {
		return err
	}
	if err := one.use(one.contents); err != nil {
		return fmt.Errorf("use %s: %w", one.name(), err)
	}
	f.all = append(f.all, one)
	return nil
}

// Into returns a function for [Files.Load] that keeps what the content means.
func Into[T any](value *atomic.Pointer[T], parse func(content []byte) (*T, error)) func([]byte) error {
	return func(content []byte) error {
		fresh, err := parse(content)
		if err == nil {
			value.Store(fresh)
		}
		return err
	}
}

// Run follows the files until ctx is done, and calls changed when a new content is in use, once at
// a time. It logs a problem once, and only if two polls in a row meet it: a single poll may come
// while a file is being written, or between the first and the last of several files.
func (f *Files) Run(ctx context.Context, changed func()) {
	var changing sync.Mutex
	var running sync.WaitGroup
	for _, one := range f.all {
		// Each has a goroutine, because a disk on the network may not answer.
		running.Go(func() {
			one.run(ctx, func() {
				changing.Lock()
				defer changing.Unlock()
				changed()
			})
		})
	}
	running.Wait()
}

// Check makes Run poll the files at once, and returns after that or when ctx is done. Unlike
// other polls, this one logs a problem even if it is new or has been logged: the caller wants
// to know whether the files can be used now.
func (f *Files) Check(ctx context.Context) {
	for _, one := range f.all {
		one.check(ctx)
	}
}
