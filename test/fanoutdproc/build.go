// Package fanoutdproc builds fanoutd for tests that run it in processes of its own.
package fanoutdproc

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/test/race"
)

// dir holds the program while the tests run.
var dir string

// build builds fanoutd once for all tests of a package, which is two folders below
// the root.
var build = sync.OnceValues(func() (string, error) {
	const root = "../.."
	// The go command caches the result of a test until the files change that the
	// test has looked at. It cannot see what a compiler run by the test reads.
	for _, dir := range []string{"cmd", "gen", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			return "", err
		}
	}
	var err error
	if dir, err = os.MkdirTemp("", "fanoutdproc-"); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "fanoutd")
	args := []string{"build", "-o", program}
	if race.Enabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/fanoutd")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fanoutd: %w\n%s", err, out)
	}
	return program, nil
})

// Program returns the path of fanoutd, which is built with the race detector if the
// test is.
func Program(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Clean removes the program. TestMain calls it when the tests have run.
func Clean() { os.RemoveAll(dir) }
