package e2e

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// fanoutd is built once for all tests.
var fanoutd = sync.OnceValues(func() (string, error) {
	const root = "../.."
	// The go command caches the result of a test until the files change that the
	// test has looked at. It cannot see what a compiler run by the test reads.
	for _, dir := range []string{"cmd", "gen", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			return "", err
		}
	}
	program := filepath.Join(programs, "fanoutd")
	args := []string{"build", "-o", program}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/fanoutd")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fanoutd: %w\n%s", err, out)
	}
	return program, nil
})

// program returns the path of fanoutd.
func program(t *testing.T) string {
	t.Helper()
	path, err := fanoutd()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
