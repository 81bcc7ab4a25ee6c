package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// process is a fanoutd.
type process struct {
	address, admin string
	pid            int
	exited         chan struct{} // closed when the process has ended
}

// runServer runs a fanoutd with these flags until the test ends. If openFiles is not zero, the
// process may have that many file descriptors.
func runServer(ctx context.Context, t *testing.T, openFiles int, flags ...string) *process {
	t.Helper()
	p := &process{address: loopback.FreeAddress(t), admin: loopback.FreeAddress(t), exited: make(chan struct{})}
	args := []string{
		fanoutdproc.Program(t), "--listen", p.address, "--admin-listen", p.admin,
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--log-level", "error",
	}
	args = append(args, flags...)
	if openFiles > 0 {
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, openFiles)}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // do not pass the test's settings to the server
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // it is killed, or the test notices that it is gone
		close(p.exited)
	}()
	t.Cleanup(func() {
		// Streams without a reader delay a graceful stop, so kill the server.
		_ = cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// peakMemory returns the largest resident memory of the process so far, in MiB.
func (p *process) peakMemory(t *testing.T) int { return p.status(t, "VmHWM") >> 10 }

// memory returns the resident memory of the process, in MiB.
func (p *process) memory(t *testing.T) int { return p.status(t, "VmRSS") >> 10 }

// status returns a value of the kernel's status of the process, in KiB.
func (p *process) status(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Skip(err) // not Linux
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	value, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return value
}
