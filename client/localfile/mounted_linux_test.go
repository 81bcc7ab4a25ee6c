package localfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/client/localfile"
)

// A file that is mounted into a container by itself cannot be replaced.
func TestErrorOfAMountedFileSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file, mounted := filepath.Join(dir, "file"), filepath.Join(dir, "mounted")
	for _, path := range []string{file, mounted} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(file, mounted, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	err := localfile.Replace(mounted, []byte("x"), 0o600)
	if err == nil || !strings.Contains(err.Error(), "mount its folder instead") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("got files %v, %v", entries, err)
	}
}
