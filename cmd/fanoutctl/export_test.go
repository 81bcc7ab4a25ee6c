package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The message about an interrupted export depends on the target: only an export to a
// directory can be continued.
func TestInterruptedExportReportsTheTarget(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	for target, hint := range map[string]string{
		"-":       "the output is incomplete",
		"a.jsonl": "a.jsonl is unchanged",
		"dir/":    "run the same command again to continue",
	} {
		cmd := exec.Command("fanoutctl", "export", "config", target, "--tls=false", "--server", silent.Addr().String())
		var errs strings.Builder
		cmd.Dir, cmd.Stderr, cmd.Env = dir, &errs, []string{"HOME=" + dir}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The command waits for an answer.
		c, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code is checked below
		c.Close()
		if want := "fanoutctl: interrupted after 0 objects; " + hint + "\n"; cmd.ProcessState.ExitCode() != exitInterrupted || errs.String() != want {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", target, cmd.ProcessState.ExitCode(), errs.String(), exitInterrupted, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a.jsonl")); !os.IsNotExist(err) {
		t.Errorf("the file exists, or: %v", err)
	}
}
