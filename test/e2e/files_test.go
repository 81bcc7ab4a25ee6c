package e2e

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// write creates a file and lets print write its content.
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

// writeFile creates a file with this content.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
