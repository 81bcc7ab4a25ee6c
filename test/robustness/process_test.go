package robustness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// process is a program that can be stopped and started again with the same arguments.
// The end of the test kills it.
type process struct {
	program string
	args    []string
	log     string // path of the file that takes its output

	cmd    *exec.Cmd
	exited chan struct{} // closed when it has exited
}

func newProcess(t *testing.T, dir, name, program string, args ...string) *process {
	p := &process{program: program, args: args, log: filepath.Join(dir, name+".log")}
	t.Cleanup(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		if t.Failed() {
			t.Logf("the log of %s is %s", name, p.log)
		}
	})
	return p
}

// start starts the program, without waiting until it serves.
func (p *process) start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	fmt.Fprintf(out, "--- %s\n", strings.Join(append([]string{filepath.Base(p.program)}, p.args...), " "))
	cmd := exec.Command(p.program, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	// Do not inherit variables that configure fanoutd or etcd on this machine.
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FANOUTD_") && !strings.HasPrefix(entry, "ETCD_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process state has the result
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// gone reports whether the process has exited.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// end sends the signal and waits for the process to exit.
func (p *process) end(ctx context.Context, signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %v to %s: %w", signal, p.program, err)
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("%s still runs after %v: %w", p.program, signal, context.Cause(ctx))
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	ended := p.cmd.ProcessState.ExitCode() == 0 || ok && status.Signaled() && status.Signal() == signal
	if !ended {
		return fmt.Errorf("%s exited with %v after %v", p.program, p.cmd.ProcessState, signal)
	}
	return nil
}
