package mutants

import (
	"os"
	"path/filepath"
	"testing"
)

// buildNode copies what the compiler has made of the package and of its test client. Mutants change the compiled files,
// which have the text of the sources without the types.
func buildNode(t *testing.T, folder string, m mutant) []string {
	t.Helper()
	sources, err := filepath.Abs(filepath.Join(root, "clients/node"))
	if err != nil {
		t.Fatal(err)
	}
	build := filepath.Join(folder, "build")
	copyFolder(t, filepath.Join(sources, "build/src"), filepath.Join(build, "src"))
	copyFolder(t, filepath.Join(sources, "build/conformance"), filepath.Join(build, "conformance"))
	if err := os.Symlink(filepath.Join(sources, "node_modules"), filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mutate(t, filepath.Join(sources, "build"), m, filepath.Join(build, m.file))
	return []string{"node", filepath.Join(build, "conformance/main.js")}
}
