//go:build unix

package testclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the processes that a program starts end together with it. A signal from a terminal does not reach
// them: the kit ends them.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends a program and the processes that it has started.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // fails if all have ended
