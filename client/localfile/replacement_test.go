package localfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanoutd/fanoutd/client/localfile"
)

func TestExistingFileKeepsItsPermissions(t *testing.T) {
	for name, existing := range map[string]fs.FileMode{"new": 0, "narrower": 0o600, "wider than the umask": 0o666} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			mode, want := fs.FileMode(0o600), fs.FileMode(0o600) // which no usual umask narrows
			if existing != 0 {
				mode, want = 0o640, existing
				if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, existing); err != nil {
					t.Fatal(err)
				}
			}
			if err := localfile.Replace(path, []byte("new"), mode); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("got mode %v, %v, want %v", info.Mode(), err, want)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
				t.Errorf("got content %q, %v", text, err)
			}
		})
	}
}

// A replacement that is discarded, or that cannot take the place of the file, leaves nothing behind.
func TestFailureLeavesNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	f, err := localfile.Begin(filepath.Join(dir, "discarded"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Discard()
	if err := os.MkdirAll(filepath.Join(dir, "folder", "child"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := localfile.Replace(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
		t.Error("a file has replaced a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v", entries, err)
	}
}
