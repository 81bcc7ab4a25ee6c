// Package program builds programs of this module for tests that run them in processes
// of their own.
package program

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// root is the module, as seen from the packages whose tests build something: they are
// two folders below it. What is built there is what its go.mod says.
const root = "../.."

// Program is built once for all tests of a package, when the first of them needs it.
type Program struct {
	Package string   // as in ./cmd/fanoutd
	Flags   []string // of go build

	// Sources are folders of the module that the program is made of. The go command
	// caches the result of a test until the files change that the test has looked at; it
	// cannot see what a compiler run by the test reads. Default: the result may be one
	// of an older program.
	Sources []string

	once sync.Once
	dir  string // holds it while the tests run
	path string
	err  error // why there is none
}

// Path returns where the program is.
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
	name := filepath.Base(p.Package)
	var err error
	if p.dir, err = os.MkdirTemp("", name+"-"); err != nil {
		return "", err
	}
	path := filepath.Join(p.dir, name)
	args := append([]string{"build", "-o", path}, p.Flags...)
	cmd := exec.Command("go", append(args, p.Package)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// Clean removes the program. TestMain calls it when the tests have run.
func (p *Program) Clean() { os.RemoveAll(p.dir) }
