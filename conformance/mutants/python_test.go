package mutants

import (
	"os"
	"path/filepath"
	"testing"
)

// buildPython copies the package and its test client.
func buildPython(t *testing.T, folder string, m mutant) []string {
	t.Helper()
	sources := filepath.Join(root, "clients/python")
	copyFolder(t, filepath.Join(sources, "fanoutd"), filepath.Join(folder, "fanoutd"))
	program, err := os.ReadFile(filepath.Join(sources, "conformance.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "conformance.py"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	mutate(t, sources, m, filepath.Join(folder, m.file))
	return []string{"/usr/bin/python3", filepath.Join(folder, "conformance.py")}
}
