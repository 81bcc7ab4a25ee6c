//go:build unix

package main

import "os/exec"

const defaultEditor = "vi"

// editorCommand opens a file in an editor. The line may contain arguments; the shell splits it.
func editorCommand(line, file string) *exec.Cmd {
	return exec.Command("sh", "-c", line+` "$@"`, line, file)
}
