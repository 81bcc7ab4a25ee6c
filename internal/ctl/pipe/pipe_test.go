//go:build unix

package pipe_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

var errStopped = errors.New("stopped")

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holdOpen opens both ends of a pipe, and uses neither.
func holdOpen(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil { // before it is closed, so nothing waits for the other end any more
			t.Error(err)
		}
		f.Close()
	})
}

func TestContentPassesThroughAPipe(t *testing.T) {
	path := newPipe(t)
	got := make(chan string)
	go func() {
		content, err := pipe.ReadFile(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		got <- string(content)
	}()
	out, err := pipe.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, "content"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if content := <-got; content != "content" {
		t.Errorf("got %q", content)
	}
}

// The pipe may have no name by the time at which ctx ends, or may be one that the user may only write to.
func TestTheEndOfTheContextEndsTheWaitForTheOtherEnd(t *testing.T) {
	for name, open := range map[string]func(context.Context, string) error{
		"ReadFile": func(ctx context.Context, path string) error {
			_, err := pipe.ReadFile(ctx, path)
			return err
		},
		"Create": func(ctx context.Context, path string) error {
			_, err := pipe.Create(ctx, path)
			return err
		},
	} {
		path := newPipe(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		opened := make(chan error)
		go func() { opened <- open(ctx, path) }()
		cancel(errStopped)
		if err := <-opened; !errors.Is(err, errStopped) {
			t.Errorf("%s: got %v, want %v", name, err, errStopped)
		}
		holdOpen(t, path) // ends the system call
	}
}

func TestTheEndOfTheContextEndsReadingAndWriting(t *testing.T) {
	path := newPipe(t)
	holdOpen(t, path)
	for name, use := range map[string]func(context.Context) error{
		"ReadFile": func(ctx context.Context) error {
			_, err := pipe.ReadFile(ctx, path)
			return err
		},
		"Write": func(ctx context.Context) error {
			out, err := pipe.Create(ctx, path)
			if err != nil {
				return err
			}
			defer out.Close()
			_, err = out.Write(make([]byte, 1<<24)) // more than any pipe holds
			return err
		},
		"ReadAll": func(ctx context.Context) error {
			silent, end := io.Pipe()
			defer end.Close()
			_, err := pipe.ReadAll(ctx, silent)
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- use(ctx) }()
		cancel(errStopped)
		if err := <-ended; !errors.Is(err, errStopped) {
			t.Errorf("%s: got %v, want %v", name, err, errStopped)
		}
	}
}

func TestReadAllReadsToTheEnd(t *testing.T) {
	failed := errors.New("failed")
	for content, end := range map[string]error{"": nil, "some text": nil, "cut": failed} {
		got, err := pipe.ReadAll(t.Context(), io.MultiReader(strings.NewReader(content), endWith(end)))
		if string(got) != content || !errors.Is(err, end) {
			t.Errorf("got %q and %v, want %q and %v", got, err, content, end)
		}
	}
}

// endWith is a reader without content that fails with an error, or ends.
func endWith(err error) io.Reader {
	r, w := io.Pipe()
	w.CloseWithError(err)
	return r
}
