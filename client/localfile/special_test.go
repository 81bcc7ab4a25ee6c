//go:build unix

package localfile_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/client/localfile"
)

// special creates one of each kind of file that must not be replaced.
func special(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"a device": os.DevNull, "a named pipe": filepath.Join(dir, "pipe"), "a folder": filepath.Join(dir, "folder"),
		"a socket": filepath.Join(dir, "socket"),
	}
	if err := syscall.Mkfifo(all["a named pipe"], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(all["a folder"], 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", all["a socket"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return all
}

func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	for kind, path := range special(t) {
		for _, linked := range []bool{false, true} {
			if linked {
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(path, link); err != nil {
					t.Fatal(err)
				}
				path = link
			}
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			_, readErr := localfile.ReadFile(path)
			for what, err := range map[string]error{
				"Check": localfile.Check(path), "ReadFile": readErr, "Replace": localfile.Replace(path, []byte("x"), 0o600),
			} {
				refused, ok := errors.AsType[*localfile.NotRegularError](err)
				if !ok || refused.Path != path || !strings.Contains(err.Error(), kind) {
					t.Errorf("%s of %s (link: %v): got %v", what, kind, linked, err)
				}
			}
			if after, err := os.Stat(path); err != nil || after.Mode() != before.Mode() {
				t.Errorf("%s is now %v, %v", kind, after, err)
			}
		}
	}
}

// A link stays, and what it leads to is replaced, also if that does not exist yet.
func TestTheTargetOfALinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	target, second, first := filepath.Join(dir, "real", "file"), filepath.Join(dir, "real", "second"), filepath.Join(dir, "first")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{second: "file", first: filepath.Join("real", "second")} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range []string{"new", "newer"} {
		if err := localfile.Replace(first, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(target); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	for _, link := range []string{first, second} {
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("%s is now %v, %v", link, info, err)
		}
	}
	endless := filepath.Join(dir, "endless")
	if err := os.Symlink("endless", endless); err != nil {
		t.Fatal(err)
	}
	if err := localfile.Replace(endless, nil, 0o600); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: got %v", err)
	}
}

func TestReplacedFileKeepsItsOwnerAndGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 1234, 2345); err != nil {
		t.Fatal(err)
	}
	if err := localfile.Replace(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 1234 || s.Gid != 2345 || info.Mode() != 0o640 {
		t.Errorf("got owner %d:%d and mode %v, want 1234:2345 and 640", s.Uid, s.Gid, info.Mode())
	}
}
