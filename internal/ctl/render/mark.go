package render

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// markSuffix ends the name of a mark: an empty file beside the file, ".NAME" and this.
// It says that the file was replaced and that those who read it have yet to be told.
// It outlives the process: otherwise nobody would ever be told of a file that is found
// unchanged after a restart.
const markSuffix = ".untold"

func markOf(path string) string {
	path = target(path)
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+markSuffix)
}

// isMarked reports whether somebody has yet to be told of the file.
func (f *File) isMarked() bool {
	_, err := os.Lstat(markOf(f.Path))
	return f.Tells && err == nil
}

func (f *File) mark() error {
	if !f.Tells {
		return nil
	}
	return os.WriteFile(markOf(f.Path), nil, newFile)
}

// Told says that those who read the file were told of what is in it.
func (f *File) Told() error {
	if err := os.Remove(markOf(f.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}
