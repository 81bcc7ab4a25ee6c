package rules

import (
	"encoding/json"
	"os/exec"
	pathpkg "path"
	"path/filepath"
	"slices"
	"testing"
)

type requirement struct {
	Path, Version string
	Indirect      bool
}

// requirements returns what the module of this folder requires.
func requirements(t *testing.T, folder string) map[string]requirement {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s/go.mod: %v", folder, err)
	}
	var mod struct {
		Require []requirement
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	all := map[string]requirement{}
	for _, r := range mod.Require {
		all[r.Path] = r
	}
	return all
}

// The tests and benchmarks that have their own module use the same etcd and gRPC as the
// product, except for test/etcd36, which is an older etcd on purpose.
func TestModulesAgreeOnVersions(t *testing.T) {
	product := requirements(t, root)
	modules, err := filepath.Glob(filepath.Join(root, "test", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range append(modules, filepath.Join(root, "bench", "go.mod")) {
		for path, got := range requirements(t, filepath.Dir(mod)) {
			want, shared := product[path]
			older := filepath.Base(filepath.Dir(mod)) == "etcd36" && in(path, "go.etcd.io")
			if shared && got.Version != want.Version && in(path, "go.etcd.io", "google.golang.org") && !older {
				t.Errorf("%s requires %s %s, want %s as in the product", mod, path, got.Version, want.Version)
			}
		}
	}
}

// Every importer of the client inherits the requirements of the product. A library that
// only tests need belongs into the module of those tests, unless it is on this list of
// small libraries.
func TestTestsDoNotBurdenImporters(t *testing.T) {
	small := []string{
		"github.com/creack/pty",
		"github.com/google/go-cmp",
		"github.com/hinshun/vt10x",
		"github.com/rogpeppe/go-internal",
		"go.uber.org/goleak",
		"pgregory.net/rapid",
	}
	needed := map[string]bool{}
	for _, p := range packages(t) {
		if in(p.ImportPath, "test") {
			continue
		}
		for _, path := range p.Imports {
			for ; path != "."; path = pathpkg.Dir(path) {
				needed[path] = true
			}
		}
	}
	for path, r := range requirements(t, root) {
		if !r.Indirect && !needed[path] && !slices.Contains(small, path) {
			t.Errorf("go.mod requires %s, which only tests need", path)
		}
	}
}
