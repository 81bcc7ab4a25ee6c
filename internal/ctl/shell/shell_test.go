package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandIsTerminatedWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	c := Command{Line: "kill -0 $$ && exec sleep 1000", Stdout: cancelling(func() { cancel(stopped) })}
	c.Line = "echo started; " + c.Line
	if err := c.Run(ctx, nil); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

// Child processes of the shell end with the command, even if they must be killed.
func TestChildProcessesAreTerminatedWithTheContext(t *testing.T) {
	for name, line := range map[string]string{
		"waiting":    `sh -c 'echo $$; exec sleep 1000'; true`,
		"background": `sh -c 'echo $$; exec sleep 1000' & wait`,
		"stubborn":   `sh -c 'trap "" TERM; echo $$; exec sleep 1000'; true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe() // like a terminal, a file needs no copying goroutine
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- (&Command{Line: line, Stdout: w}).Run(ctx, nil) }()
			var child int
			if _, err := fmt.Fscan(r, &child); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			// The pipe reports EOF once the last process has ended.
			w.Close()
			if err := r.SetReadDeadline(time.Now().Add(poll.Patience)); err != nil {
				t.Error(err)
			}
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("process %d is still running: %v", child, err)
				if p, err := os.FindProcess(child); err == nil {
					_ = p.Kill()
				}
			}
		})
	}
}

// cancelling calls a function on each write.
type cancelling func()

func (f cancelling) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func TestSignalPIDFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if err := SignalPIDFile(file, syscall.Signal(0)); err == nil {
		t.Error("got no error without a file")
	}
	for text, ok := range map[string]bool{"": false, "x": false, "0": false, "-1": false, strconv.Itoa(os.Getpid()) + "\n": true} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// Signal 0 only checks whether the process exists.
		if err := SignalPIDFile(file, syscall.Signal(0)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The error of a command has the last lines of its standard error, which is also passed on.
func TestErrorHasTheLastWords(t *testing.T) {
	var errs strings.Builder
	c := Command{Line: "echo one >&2; echo two >&2; echo three >&2; echo four >&2; exit 3", Stderr: &errs}
	defer c.Close()
	err := c.Run(t.Context(), nil)
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.LastWords != "two; three; four" || !strings.HasSuffix(err.Error(), `exit 3": exit status 3: two; three; four`) {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		t.Errorf("got %v, want the exit status", err)
	}
	if errs.String() != "one\ntwo\nthree\nfour\n" {
		t.Errorf("got %q", errs.String())
	}

	c.Line = "exit 1 #" + strings.Repeat("x", 1000)
	if text := c.Run(t.Context(), nil).Error(); len(text) > 300 || !strings.HasSuffix(text, `xxx…": exit status 1`) {
		t.Errorf("got %q", text)
	}
	c.Line = "echo no reason >&2"
	if err := c.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
	c.Line = "head -c 1000000 /dev/zero >&2; exit 1"
	errs.Reset()
	if err := c.Run(t.Context(), nil); err == nil || errs.Len() != 1000000 {
		t.Errorf("got %v and %d bytes", err, errs.Len())
	}
}

// A process that a command leaves in the background does not delay the end of the command. What it writes is passed on.
func TestBackgroundProcessKeepsStandardError(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("mkfifo", filepath.Join(dir, "wake")).Run(); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	c := Command{Line: "cd " + dir + "; (read x <wake; echo late >&2) & echo now >&2; exit 3", Stderr: w}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context(), nil) }()
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != "now" {
		t.Errorf("got %q", lines.Text())
	}
	if failed, ok := errors.AsType[*Error](<-ended); !ok || failed.LastWords != "now" {
		t.Errorf("got %v", failed)
	}
	if err := os.WriteFile(filepath.Join(dir, "wake"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "late" {
		t.Errorf("got %q", lines.Text())
	}
	c.Close()
}

// A command does not wait for a reader of its standard error that is gone.
func TestStandardErrorThatFails(t *testing.T) {
	c := Command{Line: "yes >&2; exit 1", Stderr: failing{}}
	defer c.Close()
	if err := c.Run(t.Context(), nil); err == nil {
		t.Error("got no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
