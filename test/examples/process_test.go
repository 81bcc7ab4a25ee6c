package examples

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take. It only matters when something is broken,
// and includes building what a README uses.
const patience = 3 * time.Minute

// process is a running program. It is ended by its own handle when the test is
// over, whatever happens.
type process struct {
	cmd    *exec.Cmd
	errors output        // its standard error
	exited chan struct{} // closed when it has ended
}

// start runs a command. What it prints goes to stdout.
func start(t *testing.T, stdout io.Writer, command ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = stdout, &p.errors
	p.cmd.Env = cleanEnvironment()
	// A group of its own gets signals as from a keyboard: a shell and what it runs.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.signal(syscall.SIGKILL) // it may have ended
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote\n%s", strings.Join(command, " "), p.errors.String())
		}
	})
	return p
}

// end sends the signal, waits for the end and returns the exit code.
func (p *process) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
	return p.wait(t)
}

// signal sends a signal, unless the process has ended and its number may be somebody
// else's.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// wait waits for the end and returns the exit code, which is -1 after a signal.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// cleanEnvironment is the environment of the test without what configures fanoutd.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FANOUTD_") {
			env = append(env, entry)
		}
	}
	return env
}

// output takes what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
