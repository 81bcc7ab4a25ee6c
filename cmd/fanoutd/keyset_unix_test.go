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

// keyset does something with a file of keys.
func keyset(t *testing.T, args ...string) {
	t.Helper()
	if code := run(t.Context(), append([]string{"keyset"}, args...), nil, io.Discard, t.Output()); code != exitOK {
		t.Errorf("%v exits with %d", args, code)
	}
}

// Several who add keys at the same time add as many; nobody undoes what others have done.
func TestKeysThatAreAddedAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	keyset(t, "create", path)
	const several = 10
	var adding sync.WaitGroup
	for range several {
		adding.Go(func() { keyset(t, "add", path) })
	}
	adding.Wait()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := crypt.Keys(content); err != nil || len(keys) != several+1 {
		t.Errorf("there are %d keys, %v, want %d", len(keys), err, several+1)
	}
}

// A server that reads the keyset as one of its group can still do so when root has added
// a key.
func TestAKeysetKeepsItsGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to any group")
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
		t.Errorf("it belongs to %d:%d with mode %04o", owner.Uid, owner.Gid, info.Mode().Perm())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
}
