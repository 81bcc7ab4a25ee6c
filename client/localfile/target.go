package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NotRegularError says that a path leads to something that cannot be replaced, such as a device,
// a named pipe or a folder.
type NotRegularError struct {
	Path string
	Mode fs.FileMode
}

// Error implements error.
func (e *NotRegularError) Error() string {
	return fmt.Sprintf("%s is %s, want a regular file", e.Path, kind(e.Mode))
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "of another kind"
}

// Check returns an error, such as a [*NotRegularError], if a file cannot be replaced. It is no
// error that there is no such file. Links are followed. Check opens nothing, so it never waits.
func Check(path string) error {
	_, _, err := find(path)
	return err
}

// ReadFile is os.ReadFile for files that will be replaced: it refuses all others instead of waiting
// for them.
func ReadFile(path string) ([]byte, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// maxLinks is the number of symbolic links that are followed; Linux follows no more than that.
const maxLinks = 40

// Target returns the path to which a symbolic link leads, and other paths unchanged. A link may
// lead to a file that does not exist yet. The file is replaced, and the link stays.
func Target(path string) string {
	for range maxLinks {
		next, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	return path
}

// find returns the target of a path, and the regular file that is there, or nil if there is none.
func find(path string) (string, fs.FileInfo, error) {
	// The names in /proc of open files are links that only the system can follow.
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return "", nil, &NotRegularError{path, info.Mode()}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", nil, err
	}
	target := Target(path)
	there, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) && info == nil:
		return target, nil, nil
	case err != nil:
		return "", nil, err
	case !there.Mode().IsRegular() || info != nil && !os.SameFile(info, there):
		return "", nil, &NotRegularError{path, there.Mode()}
	}
	return target, there, nil
}
