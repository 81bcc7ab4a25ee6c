// Package shell runs the commands that users name, and signals their processes.
package shell

import (
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
}

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// Run runs the command and waits for it. If ctx ends, the command and all processes that it
// started get SIGTERM, and SIGKILL after killDelay; on Windows they end at once. Otherwise
// processes that the command leaves in the background keep running.
func (c *Command) Run(ctx context.Context, stdin io.Reader, variables ...string) error {
	cmd := shell(ctx, c.Line)
	cmd.Env = slices.Clone(c.Environ)
	for _, v := range variables {
		// A NUL would make exec fail, so the author of an object could stop the watches
		// of other users.
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "\x00", ""))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, c.Stdout, c.Stderr
	var g processGroup
	cmd.Cancel = func() error { return g.terminate(cmd.Process) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	g.wait()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A background process still holds the output.
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return fmt.Errorf("command %q: %w", c.Line, err)
	}
	return nil
}

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
