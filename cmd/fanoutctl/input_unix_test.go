//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/poll"
)

// A signal also ends a command that waits for its input: for the writer of a pipe, or for what the writer has not written
// yet.
func TestASignalEndsTheWaitForAnInput(t *testing.T) {
	dir := t.TempDir()
	unopened, silent := filepath.Join(dir, "unopened"), filepath.Join(dir, "silent")
	for _, path := range []string{unopened, silent} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "value.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(silent, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	stdin, endOfStdin := io.Pipe()
	defer endOfStdin.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	output := filepath.Join(dir, "output")
	for name, args := range map[string][]string{
		"put":                       {"put", "config", "a", "--file", unopened},
		"put, silent":               {"put", "config", "a", "--file", silent},
		"put, standard input":       {"put", "config", "a"},
		"txn":                       {"txn", "config", unopened},
		"txn, silent":               {"txn", "config", silent},
		"txn, standard input":       {"txn", "config"},
		"import":                    {"import", "config", unopened},
		"import, silent":            {"import", "config", silent},
		"import, standard input":    {"import", "config", "-"},
		"import, folder":            {"import", "config", dir},
		"import, raw":               {"import", "config", dir, "--raw"},
		"diff":                      {"diff", "config", unopened},
		"template":                  {"watch", "config", "--render", output + "=" + unopened},
		"template that is not read": {"watch", "config", "--render", output + "=" + silent},
	} {
		var out, errs bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, append(args, "--server", "127.0.0.1:1"), []string{"HOME=" + dir}, stdin, &out, &errs)
		}()
		select {
		case code := <-ended:
			if args[0] == "watch" {
				if code != exitOK { // a watch runs until a signal ends it
					t.Errorf("%s: got %d and %q, want %d", name, code, errs.String(), exitOK)
				}
			} else if code != exitInterrupted || errs.String() != "fanoutctl: interrupted\n" {
				t.Errorf("%s: got %d and %q, want %d and that it was interrupted", name, code, errs.String(), exitInterrupted)
			}
		case <-poll.Context(t).Done():
			t.Fatalf("%s still waits", name)
		}
	}
}
