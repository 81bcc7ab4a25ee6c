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

	"github.com/fanoutd/fanoutd/test/poll"
)

// process is a running program. It is killed at the end of the test.
type process struct {
	cmd    *exec.Cmd
	errors *output       // its standard error
	exited chan struct{} // closed when the process has ended
}

// start starts a command whose standard output goes to stdout.
func start(t *testing.T, stdout io.Writer, command ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(command[0], command[1:]...), errors: newOutput(), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.errors
	p.cmd.Env = cleanEnvironment()
	// A signal to the process group reaches a shell and its children, like Ctrl-C does.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the result is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.signal(syscall.SIGKILL) // fails if the process has ended
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote\n%s", strings.Join(command, " "), p.errors.String())
		}
	})
	return p
}

// end sends the signal, waits for the process and returns its exit code.
func (p *process) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
	return p.wait(t)
}

// signal sends a signal. It does not if the process has ended, because another process
// may have got its id.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// wait waits for the process and returns its exit code, which is -1 after a signal.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(poll.Patience):
		t.Fatal("the process did not end in time")
	}
	return p.cmd.ProcessState.ExitCode()
}

// cleanEnvironment returns the environment of the test without the settings of fanoutd.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FANOUTD_") {
			env = append(env, entry)
		}
	}
	return env
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	more chan struct{} // closed at the next output; guarded by mu
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until a process has printed something.
func (o *output) await(t *testing.T, p *process, want string) {
	t.Helper()
	late := time.After(poll.Patience)
	for {
		o.mu.Lock()
		text, more := o.text.String(), o.more
		o.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-more:
		case <-p.exited:
			if !strings.Contains(o.String(), want) {
				t.Fatalf("the process has ended; it printed\n%s\nwant %q", o, want)
			}
		case <-late:
			t.Fatalf("the process printed\n%s\nwant %q", o, want)
		}
	}
}
