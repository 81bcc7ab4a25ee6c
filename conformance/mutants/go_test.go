package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// buildGo compiles the test client with an overlay, which replaces a file of package client.
func buildGo(t *testing.T, folder string, m mutant) []string {
	t.Helper()
	sources, err := filepath.Abs(filepath.Join(root, "client"))
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(folder, "changed.go")
	mutate(t, sources, m, changed)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(sources, m.file): changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "goclient")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", program, "./conformance/goclient")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{program}
}
