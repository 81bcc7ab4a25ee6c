package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// process is a running program. The end of the test kills it.
type process struct {
	cmd    *exec.Cmd
	log    string        // path of the file that takes its output
	exited chan struct{} // closed when it has exited
	err    error         // of Wait, once exited is closed
}

// start runs a program with its output appended to the file log.
func start(t *testing.T, log, program string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fmt.Fprintf(out, "--- %s\n", strings.Join(append([]string{filepath.Base(program)}, args...), " "))

	p := &process{cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = cleanEnvironment()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// cleanEnvironment is the environment of the test without the variables that configure
// fanoutd.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FANOUTD_") {
			env = append(env, entry)
		}
	}
	return env
}

// signal sends a signal.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// wait waits for the process to exit, and returns its exit code, or -1 if a signal killed
// it.
func (p *process) wait(ctx context.Context) (int, error) {
	select {
	case <-ctx.Done():
		return 0, fmt.Errorf("the process has not exited: %w", context.Cause(ctx))
	case <-p.exited:
	}
	if exit := (*exec.ExitError)(nil); p.err != nil && !errors.As(p.err, &exit) {
		return 0, p.err
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// output returns the output of all processes that share the log.
func (p *process) output(t *testing.T) string {
	t.Helper()
	out, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// tail returns the last lines of a log.
func tail(log string) string {
	lines := bytes.SplitAfter([]byte(log), []byte("\n"))
	const enough = 60
	return string(bytes.Join(lines[max(0, len(lines)-enough):], nil))
}
