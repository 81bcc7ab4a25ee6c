package rules

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPackagesAreNamedAfterWhatTheyAre(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "base"}, p.Name) {
			t.Errorf("%s has a meaningless name", p.ImportPath)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	documented := map[string]bool{}
	for f := range files(t) {
		documented[f.pkg.ImportPath] = documented[f.pkg.ImportPath] || f.syntax.Doc != nil
	}
	for path, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", path)
		}
	}
}

// TestTestsDoNotSleep checks that tests do not sleep, which makes them slow and their result
// a matter of timing. A bubble of testing/synctest has its own time and may sleep.
func TestTestsDoNotSleep(t *testing.T) {
	for f := range files(t) {
		if f.mentions("time.Sleep") && !f.imports("testing/synctest") {
			t.Errorf("%s calls time.Sleep", f.name)
		}
	}
}

// TestWaitsEndOnlyForBrokenPrograms checks that a wait of a test is as long as poll.Patience, because a machine may
// be busy, or has a comment that says why it is shorter.
func TestWaitsEndOnlyForBrokenPrograms(t *testing.T) {
	for f := range files(t) {
		isExample := strings.HasSuffix(f.name, "/example_test.go") // shows what programs do
		if !f.test || isExample || f.imports("testing/synctest") {
			continue
		}
		for _, name := range []string{
			"context.WithTimeout", "context.WithTimeoutCause", "context.WithDeadline", "context.WithDeadlineCause", "time.After",
		} {
			for call := range f.calls(name) {
				if !mentions(call, "poll.Patience") && !f.explains(call) {
					t.Errorf("%s: %s without poll.Patience and without a comment", f.position(call), name)
				}
			}
		}
	}
}

// TestPackagesCheckForLeaks checks that the tests of a package that starts goroutines check
// for leaked ones.
func TestPackagesCheckForLeaks(t *testing.T) {
	starts, looks := map[string]bool{}, map[string]bool{}
	for f := range files(t) {
		if !in(f.pkg.ImportPath, "client", "internal") {
			continue
		}
		path := f.pkg.ImportPath
		looks[path] = looks[path] || f.test && (f.mentions("goleak.VerifyTestMain") || f.mentions("goleak.Find"))
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok && f.test {
				starts[path] = true
			}
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && f.test {
				starts[path] = true
			}
			return true
		})
	}
	for path := range starts {
		if !looks[path] {
			t.Errorf("the tests of %s start goroutines and do not check for leaks", path)
		}
	}
}

// TestNoTraceOfTheBuildMachine checks that no file names paths of a developer's machine.
func TestNoTraceOfTheBuildMachine(t *testing.T) {
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	foreign := regexp.MustCompile(`(/` + `work/|/` + `root/|\bhelper-[0-9]|goproxy\.)`)
	for name := range strings.FieldsSeq(string(list)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, but not committed yet
		}
		if found := foreign.Find(text); found != nil {
			t.Errorf("%s contains %q", name, found)
		}
	}
}

// TestLockFilesNameNoRegistry checks that the lock files of npm packages have no addresses of the registry that
// happened to be used. npm leaves them out with the setting omit-lockfile-registry-resolved.
func TestLockFilesNameNoRegistry(t *testing.T) {
	locks, err := filepath.Glob(filepath.Join(root, "*", "node", "package-lock.json"))
	if err != nil || len(locks) == 0 {
		t.Fatalf("found the lock files %v: %v", locks, err)
	}
	for _, name := range locks {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"resolved"`) {
			t.Errorf("%s names a registry", name)
		}
	}
}

// TestNoOpenEnds checks that no comment postpones work.
func TestNoOpenEnds(t *testing.T) {
	for f := range files(t) {
		for _, group := range f.syntax.Comments {
			for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"} {
				if strings.Contains(group.Text(), word) {
					t.Errorf("%s contains %s", f.name, word)
				}
			}
		}
	}
}
