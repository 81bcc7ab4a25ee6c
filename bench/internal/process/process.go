package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is the time for a process to end before it is killed.
const grace = 10 * time.Second

// Process is a running process.
type Process struct {
	Name string

	cmd    *exec.Cmd
	log    tail
	exited chan struct{} // closed when it has ended
}

// Start starts a program. Log returns its standard error, and its standard output as well
// unless out is set. Ctrl-C in the terminal does not reach the program; the caller stops
// it.
func Start(name, program string, args []string, in, out *os.File) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if in != nil {
		p.cmd.Stdin = in
	}
	if out != nil {
		p.cmd.Stdout = out
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = grace
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// StartPiped starts a program whose only argument is the name of a command, with pipes to its
// standard input and from its standard output. The caller closes them.
func StartPiped(command, program string) (p *Process, in, out *os.File, err error) {
	commands, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer commands.Close()
	out, messages, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer messages.Close()
	if p, err = Start(command, program, []string{command}, commands, messages); err != nil {
		in.Close()
		out.Close()
	}
	return p, in, out, err
}

// Kill ends the process without its cooperation. The caller still has to stop it.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // fails if the process has ended

// Stop ends the process and waits for it. It kills the process if necessary.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // fails if the process has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return
	case <-timer.C:
	}
	p.Kill()
	<-p.exited
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Log returns the last output of the process.
func (p *Process) Log() string { return strings.TrimSpace(p.log.String()) }

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex // guards the following
	kept []byte
}

const kept = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*kept {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-kept:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[max(0, len(t.kept)-kept):])
}
