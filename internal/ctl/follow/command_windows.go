package follow

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// shell returns a command that runs the line.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd")
	// cmd does not parse its arguments like other programs: it takes everything between the outer
	// quotes as it is.
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /d /s /c "` + line + `"`}
	return cmd
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
