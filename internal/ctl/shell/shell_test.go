package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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
