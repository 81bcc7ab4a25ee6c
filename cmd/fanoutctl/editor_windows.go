package main

import (
	"os/exec"
	"syscall"
)

const defaultEditor = "notepad"

// editorCommand opens a file in an editor. The line may contain arguments. cmd takes everything
// between the outer quotes as it is.
func editorCommand(line, file string) *exec.Cmd {
	cmd := exec.Command("cmd")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /d /s /c "` + line + ` "` + file + `""`}
	return cmd
}
