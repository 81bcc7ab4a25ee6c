package e2e

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keep returns a directory for what helps to understand a failure. It outlives
// the test if the test fails, also without -artifacts.
func keep(t *testing.T) string {
	t.Helper()
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	dir, err := os.MkdirTemp("", "fanoutd-"+strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what is left of the test is in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

// write writes a file with the given writer of text.
func write(t *testing.T, dir, name string, print func(io.Writer) error) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if err := print(f); err != nil {
		t.Error(err)
	}
}

// writeFile writes a file with the given content.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
