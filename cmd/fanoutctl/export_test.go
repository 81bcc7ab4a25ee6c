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

// An export to a file or a stream that is interrupted begins anew the next time; only
// one to a directory goes on.
func TestInterruptedExport(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	for target, says := range map[string]string{
		"-":       "what was written is not everything",
		"a.jsonl": "a.jsonl was not touched",
		"dir/":    "do the same again to go on",
	} {
		cmd := exec.Command("fanoutctl", "export", "config", target, "--tls=false", "--server", silent.Addr().String())
		var errs strings.Builder
		cmd.Dir, cmd.Stderr, cmd.Env = dir, &errs, []string{"HOME=" + dir}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It waits for an answer.
		c, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code says more
		c.Close()
		if want := "fanoutctl: interrupted after 0 objects; " + says + "\n"; cmd.ProcessState.ExitCode() != exitInterrupted || errs.String() != want {
			t.Errorf("%s: exit code %d, %q, want %q", target, cmd.ProcessState.ExitCode(), errs.String(), want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a.jsonl")); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
}
