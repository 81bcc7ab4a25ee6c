package follow

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client/localfile"
)

// A process that is killed while it replaces a file leaves a temporary file behind. The next
// one removes it, and nothing else.
func TestTemporaryFilesOfKilledProcessesAreRemoved(t *testing.T) {
	for name, begin := range map[string]func(path string) error{
		"position": func(path string) error {
			_, err := (&PositionFile{Path: path}).Load()
			return err
		},
		"rendered file": func(path string) error {
			_, err := OpenTemplate(t.Context(), path, os.DevNull)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			kept := []string{".file", ".file.pending", ".file2", "file2", ".file.fanoutd-", ".file2.fanoutd-1", "file.fanoutd-123456789012345678"}
			for _, name := range kept {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				left, err := localfile.Begin(path, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				left.Close() // without Discard
			}
			if err := begin(path); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			slices.Sort(kept)
			if diff := cmp.Diff(kept, names); diff != "" {
				t.Errorf("files: -want +got:\n%s", diff)
			}
		})
	}
}
