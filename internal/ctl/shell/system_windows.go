package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// shell returns a command that runs the line.
func shell(ctx context.Context, line string) *exec.Cmd {
	return withLine(exec.CommandContext(ctx, "cmd"), line)
}

// processGroup is the shell of a command and the processes that it started.
type processGroup struct{}

// terminate ends the processes at once, because Windows cannot ask them to end.
func (processGroup) terminate(p *os.Process) error {
	if err := exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(p.Pid)).Run(); err != nil {
		return p.Kill()
	}
	return nil
}

// wait does nothing: terminate has waited.
func (processGroup) wait() {}

// stderr does not know what the command writes: pipes have no deadlines here, so reading one would wait for processes that
// the command leaves in the background.
type stderr struct {
	to   io.Writer
	last lastWords
}

func (s *stderr) attach(cmd *exec.Cmd) error {
	cmd.Stderr = s.to
	return nil
}

func (*stderr) begin(*exec.Cmd) {}
func (*stderr) end(*leftPipes)  {}

// leftPipes are the pipes of processes that commands have left in the background: none.
type leftPipes struct{}

func (*leftPipes) close() {}

// withLine sets the line of a command. cmd does not parse its arguments like other programs: it takes
// everything between the outer quotes as it is.
func withLine(cmd *exec.Cmd, line string) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /d /s /c "` + line + `"`}
	return cmd
}

// ParseSignal returns the signal with a name such as KILL or SIGKILL, the only one on Windows.
func ParseSignal(name string) (os.Signal, error) {
	if strings.TrimPrefix(strings.ToUpper(name), "SIG") == "KILL" {
		return os.Kill, nil
	}
	return nil, fmt.Errorf("cannot send signal %q: Windows has only KILL; run a command with --exec instead", name)
}

// DefaultEditor is the editor of users who name none.
const DefaultEditor = "notepad"

// Editor opens a file in an editor. The line may contain arguments.
func Editor(line, file string) *exec.Cmd { return withLine(exec.Command("cmd"), line+` "`+file+`"`) }
