// Package program builds programs of this repository for tests that run them in their
// own processes.
//
// A program is linked once for all test packages: it is kept in bin/test, and a later
// package whose sources are unchanged only links to that file.
package program

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// root is the root of the repository, relative to the package under test.
var root = findRoot()

// findRoot looks for this package above the current folder.
func findRoot() string {
	root := ".."
	for range 10 {
		if _, err := os.Stat(filepath.Join(root, "test", "program")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	return root
}

// Program is a program that the tests of a package run. It is built when the first test
// needs it.
type Program struct {
	Folder string // of the main package, such as "cmd/fanoutd"
	Race   bool   // build it with the race detector

	// Sources are the folders whose files make up the program. The go command caches a
	// test result until a file changes that the test has opened. It does not see the files
	// that a compiler run by the test reads, so without Sources a cached result may belong
	// to an older program.
	Sources []string

	once sync.Once
	dir  string // holds the program while the tests run
	path string
	err  error // why the build failed
}

// Path returns the path of the program.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	p.once.Do(func() { p.path, p.err = p.build() })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

func (p *Program) build() (string, error) {
	for _, folder := range p.Sources {
		err := filepath.WalkDir(filepath.Join(root, folder), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			return "", err
		}
	}
	shared, err := filepath.Abs(filepath.Join(root, "bin", "test"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(shared, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	name := filepath.Base(p.Folder)
	if p.Race {
		name += "-race"
	}
	built := filepath.Join(shared, name)
	// Stack traces do not need the symbol table and DWARF, which make up half of the work
	// of the linker.
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", built}
	if p.Race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join(root, p.Folder) // in the module that the program belongs to
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}

	// These tests run a file of their own, so that another test run can replace the shared
	// one meanwhile.
	if p.dir, err = os.MkdirTemp("", name+"-"); err != nil {
		return "", err
	}
	path := filepath.Join(p.dir, filepath.Base(p.Folder))
	if os.Link(built, path) == nil {
		return path, nil
	}
	return path, copyProgram(path, built) // the folders are on different file systems
}

// lock keeps the tests of other packages from building at the same time.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func copyProgram(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}

// Clean removes the program. TestMain calls it after the tests.
func (p *Program) Clean() { os.RemoveAll(p.dir) }
