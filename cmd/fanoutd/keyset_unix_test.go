//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/internal/crypt"
)

// keyset runs a keyset command, which must succeed.
func keyset(t *testing.T, args ...string) {
	t.Helper()
	if code := run(t.Context(), append([]string{"keyset"}, args...), nil, io.Discard, t.Output()); code != exitOK {
		t.Errorf("%v: got exit code %d, want 0", args, code)
	}
}

// Concurrent additions do not undo each other.
func TestConcurrentKeysetChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	keyset(t, "create", path)
	const additions = 10
	var running sync.WaitGroup
	for range additions {
		running.Go(func() { keyset(t, "add", path) })
	}
	running.Wait()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := crypt.Keys(content); err != nil || len(keys) != additions+1 {
		t.Errorf("got %d keys, %v, want %d", len(keys), err, additions+1)
	}
}

// A server that reads the keyset through its group can still do so after root has added a key.
func TestKeysetKeepsOwnerAndGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.json")
	keyset(t, "create", path)
	const uid, gid, mode = 4321, 1234, 0o440
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode|0o004); err != nil {
		t.Fatal(err)
	}
	keyset(t, "add", path)
	keyset(t, "promote", path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != uid || owner.Gid != gid || info.Mode().Perm() != mode {
		t.Errorf("got owner %d:%d and mode %04o, want %d:%d and %04o", owner.Uid, owner.Gid, info.Mode().Perm(), uid, gid, mode)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("got files %v, %v, want only the keyset", files, err)
	}
}
