//go:build unix

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shell returns a command that runs the line in a process group of its own.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// processGroup is the shell of a command and the processes that it started. The shell waits
// for them but does not forward signals, so a signal must go to the whole group. The zero
// value is a group that was not terminated.
type processGroup struct {
	id       int
	deadline time.Time // when to send SIGKILL
}

// terminate sends SIGTERM to the group that p leads.
func (g *processGroup) terminate(p *os.Process) error {
	g.id, g.deadline = p.Pid, time.Now().Add(killDelay)
	err := unix.Kill(-g.id, unix.SIGTERM)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// wait waits until a terminated group has no processes, and sends SIGKILL at the deadline.
// It polls, because the remaining processes are not our children.
func (g *processGroup) wait() {
	if g.id == 0 {
		return
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for unix.Kill(-g.id, 0) == nil {
		if !time.Now().Before(g.deadline) {
			_ = unix.Kill(-g.id, unix.SIGKILL) // fails if they have just ended
			return
		}
		// As process 1 of a container, this process inherits and must reap them.
		_, _ = unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
		<-poll.C
	}
}

// ParseSignal returns the signal with a name such as HUP or SIGHUP.
func ParseSignal(name string) (os.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if s := unix.SignalNum(full); s != 0 {
		return s, nil
	}
	return nil, fmt.Errorf("unknown signal %q (want HUP, USR1, USR2, TERM, …)", name)
}

// DefaultEditor is the editor of users who name none.
const DefaultEditor = "vi"

// Editor opens a file in an editor. The line may contain arguments; the shell splits it.
func Editor(line, file string) *exec.Cmd {
	return exec.Command("sh", "-c", line+` "$@"`, line, file)
}
