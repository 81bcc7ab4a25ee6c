// Package shell runs the commands that users name, and signals their processes.
package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is a shell command.
type Command struct {
	// Line is run by "sh -c", and on Windows by "cmd /c".
	Line string
	// Environ is the environment, besides the variables of each run.
	Environ []string
	// Stdout and Stderr receive the output.
	Stdout, Stderr io.Writer

	left leftPipes
}

// Error is the error of a command that has failed.
type Error struct {
	Line string
	Err  error // the exit status, for example
	// LastWords are the last lines of standard error, as one line of printable text. They are empty on Windows.
	LastWords string
}

// maxShownLine bounds how much of the line an error shows. It must leave room for the rest.
const maxShownLine = 200 // bytes

// Error implements error.
func (e *Error) Error() string {
	line := e.Line
	if len(line) > maxShownLine {
		line = strings.ToValidUTF8(line[:maxShownLine], "") + "…"
	}
	text := fmt.Sprintf("command %q: %v", line, e.Err)
	if e.LastWords != "" {
		text += ": " + e.LastWords
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// Run runs the command and waits for it. If ctx ends, the command and all processes that it
// started get SIGTERM, and SIGKILL after killDelay; on Windows they end at once. Otherwise
// processes that the command leaves in the background keep running. They can write to standard
// error until Close. The error of a command that has failed is an [*Error].
func (c *Command) Run(ctx context.Context, stdin io.Reader, variables ...string) error {
	cmd := shell(ctx, c.Line)
	cmd.Env = slices.Clone(c.Environ)
	for _, v := range variables {
		// A NUL would make exec fail, so the author of an object could stop the watches
		// of other users.
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "\x00", ""))
	}
	cmd.Stdin, cmd.Stdout = stdin, c.Stdout
	errs := &stderr{to: cmp.Or[io.Writer](c.Stderr, io.Discard)}
	if err := errs.attach(cmd); err != nil {
		return &Error{Line: c.Line, Err: err}
	}
	var g processGroup
	cmd.Cancel = func() error { return g.terminate(cmd.Process) }
	cmd.WaitDelay = killDelay
	err := cmd.Start()
	errs.begin(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	g.wait()
	errs.end(&c.left)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A background process still holds the output.
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return &Error{Line: c.Line, Err: err, LastWords: errs.last.String()}
	}
	return nil
}

// Close ends the standard error of processes that commands have left in the background. No command may be running.
func (c *Command) Close() { c.left.close() }

// SignalPIDFile sends a signal to the process whose ID is in the file. It reads the file each
// time, because the process may have been restarted.
func SignalPIDFile(path string, s os.Signal) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read process ID: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	// 0 and negative numbers would signal process groups.
	if err != nil || pid < 1 {
		return fmt.Errorf("%s does not contain a process ID", path)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d from %s: %w", pid, path, err)
	}
	return nil
}
