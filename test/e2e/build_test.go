package e2e

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The programs are built once for all tests, and only if one needs them.
var (
	fanoutdProgram = sync.OnceValues(func() (string, error) { return build("fanoutd", "./cmd/fanoutd") })
	etcdProgram    = sync.OnceValues(func() (string, error) { return build("etcd", "./test/etcd") })
)

func build(name, pkg string) (string, error) {
	const root = "../.."
	// The go command caches the result of a test until the files change that the
	// test has looked at. It cannot see what a compiler run by the test reads.
	for _, dir := range []string{"cmd", "gen", "internal", "test/etcd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			return "", err
		}
	}
	program := filepath.Join(programs, name)
	args := []string{"build", "-o", program}
	if raceEnabled && name != "etcd" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// program returns the path of a program that is built on demand.
func program(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
