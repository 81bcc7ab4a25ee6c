package reload_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/reload"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// followed is a file that a test reloads. The content "bad" cannot be used.
type followed struct {
	*reload.Files
	path   string
	inUse  string
	used   int // number of contents that were used
	logged strings.Builder
	stop   func() // ends Run
}

// run loads a file with the content "1", and runs it until the test ends.
func run(t *testing.T) *followed {
	t.Helper()
	f := &followed{path: filepath.Join(t.TempDir(), "file")}
	write(t, f.path, "1")
	f.Files = reload.New(slog.New(slog.NewTextHandler(&f.logged, nil)))
	err := f.Load(f.path, func(content []byte) error {
		if string(content) == "bad" {
			return errors.New("no good")
		}
		f.inUse = string(content)
		f.used++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx, func() {}) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(f.stop)
	return f
}

// errors returns the number of errors in the log.
func (f *followed) errors() int { return strings.Count(f.logged.String(), "level=ERROR") }

// A content that cannot be read or used changes nothing and is logged once.
func TestNewestUsableContentIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t)
		look := func(want string) {
			t.Helper()
			time.Sleep(3 * reload.Interval)
			synctest.Wait()
			if f.inUse != want {
				t.Errorf("in use: got %q, want %q", f.inUse, want)
			}
		}
		look("1")
		write(t, f.path, "2")
		look("2")
		write(t, f.path, "bad")
		look("2")
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
		look("2")
		write(t, f.path, "3")
		look("3")
		write(t, f.path, "bad")
		look("3")
		if f.used != 3 {
			t.Errorf("contents used: got %d, want 3", f.used)
		}
		if n := f.errors(); n != 3 {
			t.Errorf("errors logged: got %d, want 3:\n%s", n, &f.logged)
		}
	})
}

// A poll between the writes of two files that belong together reports no problem.
func TestHalfWrittenFilesAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
		both := func(content string) {
			write(t, paths[0], content)
			write(t, paths[1], content)
		}
		both("1")
		var mu sync.Mutex // orders the goroutine of Run and the test
		var logged strings.Builder
		inUse := ""
		f := reload.New(slog.New(slog.NewTextHandler(&locked{&mu, &logged}, nil)))
		err := f.LoadAll(paths, func(contents [][]byte) error {
			if string(contents[0]) != string(contents[1]) {
				return errors.New("they do not fit")
			}
			mu.Lock()
			defer mu.Unlock()
			inUse = string(contents[0])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx, func() {}) })
		defer running.Wait()
		defer stop()
		look := func(inUseThen string, errors int) {
			t.Helper()
			time.Sleep(reload.Interval)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if n := strings.Count(logged.String(), "level=ERROR"); inUse != inUseThen || n != errors {
				t.Errorf("in use and errors logged: got %q and %d, want %q and %d:\n%s", inUse, n, inUseThen, errors, &logged)
			}
		}
		write(t, paths[0], "2")
		look("1", 0)
		write(t, paths[1], "2")
		look("2", 0)
		write(t, paths[0], "3")
		look("2", 0)
		look("2", 1)
		look("2", 1)
		both("2")
		look("2", 1)
	})
}

// locked is a writer with a lock.
type locked struct {
	mu *sync.Mutex
	io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(b)
}

func TestLoadFailsIfTheFileCannotBeUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	use := func([]byte) error { return errors.New("no good") }
	if err := reload.New(slog.Default()).Load(path, use); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v, want %v", err, os.ErrNotExist)
	}
	write(t, path, "1")
	if err := reload.New(slog.Default()).Load(path, use); err == nil || !strings.Contains(err.Error(), "no good") {
		t.Errorf("unusable file: got %v, want the error of use", err)
	}
}

// Check uses a new content at once. It reports a problem whenever it meets one.
func TestCheckPollsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t)
		began := time.Now()
		for i, content := range []string{"2", "bad", "bad", "3", "bad"} {
			write(t, f.path, content)
			f.Check(t.Context())
			want := [...]struct {
				inUse  string
				errors int
			}{{"2", 0}, {"2", 1}, {"2", 2}, {"3", 2}, {"3", 3}}[i]
			if n := f.errors(); f.inUse != want.inUse || n != want.errors {
				t.Errorf("check %d: in use and errors logged: got %q and %d, want %q and %d:\n%s", i+1, f.inUse, n, want.inUse, want.errors, &f.logged)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the checks waited for %v", waited)
		}
		time.Sleep(3 * reload.Interval)
		synctest.Wait()
		if n := f.errors(); n != 3 {
			t.Errorf("errors logged, after more polls: got %d, want 3:\n%s", n, &f.logged)
		}
		f.stop()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		f.Check(ended) // returns, although Run has ended
	})
}

// A file is used together with those that its present content names, and Problem says why it is not.
func TestFilesThatNameOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := func(name string) string { return filepath.Join(dir, name) }
		names := func(content []byte) (paths []string) {
			for name := range strings.FieldsSeq(string(content)) {
				paths = append(paths, path(name))
			}
			return paths
		}
		write(t, path("main"), "a")
		write(t, path("a"), "1")
		inUse, used := "", 0
		f := reload.New(slog.New(slog.DiscardHandler))
		problem, err := f.LoadWith(path("main"), names, func(contents [][]byte) error {
			var parts []string
			for _, content := range contents[1:] {
				if string(content) == "bad" {
					return errors.New("no good")
				}
				parts = append(parts, string(content))
			}
			inUse = strings.Join(parts, " ")
			used++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx, func() {}) })
		defer running.Wait()
		defer stop()
		look := func(want, why string) {
			t.Helper()
			time.Sleep(3 * reload.Interval)
			synctest.Wait()
			if got := problem(); inUse != want || (why == "") != (got == "") || !strings.Contains(got, why) {
				t.Errorf("got %q with the problem %q, want %q with %q", inUse, got, want, why)
			}
		}
		look("1", "")
		write(t, path("a"), "2")
		look("2", "")
		write(t, path("main"), "a b")
		look("2", "no such file")
		write(t, path("b"), "bad")
		look("2", "no good")
		write(t, path("b"), "3")
		look("2 3", "")

		// What is there for one poll only may be half of a file. It is not used.
		was := used
		write(t, path("main"), "a")
		time.Sleep(reload.Interval)
		synctest.Wait()
		write(t, path("main"), "a b")
		look("2 3", "")
		write(t, path("b"), "")
		time.Sleep(reload.Interval)
		synctest.Wait()
		write(t, path("b"), "4")
		look("2 4", "")
		if used != was+1 {
			t.Errorf("%d contents were used, want 1", used-was)
		}
		write(t, path("main"), "a")
		f.Check(t.Context())
		if inUse != "2" {
			t.Errorf("got %q after a check", inUse)
		}
		write(t, path("main"), "")
		look("", "")
		if err := os.Remove(path("main")); err != nil {
			t.Fatal(err)
		}
		look("", "no such file")
		write(t, path("main"), "")
		look("", "")
	})
}
