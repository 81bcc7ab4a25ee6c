// Package replace replaces files atomically. The Go client replaces its state file much in the
// same way (client/replace_file.go). It may not import this package, and its API is not the
// place for functions of files. This package also writes in pieces, and keeps to the umask.
package replace

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/natefinch/atomic"
)

// temporaryInfix is between the name of a file and the random end of the name of its
// replacement: ".state.fanoutctl-12345" becomes "state".
const temporaryInfix = ".fanoutctl-"

// File is the replacement of a file, until Commit or Discard.
type File struct {
	*os.File
	path string
	done bool
}

// Begin creates a replacement beside the file, because both must be on the same file system. A
// file that exists keeps its permissions, a new one gets mode without the bits of the umask.
func Begin(path string, mode fs.FileMode) (*File, error) {
	old, err := os.Lstat(path)
	switch {
	case err == nil && old.Mode().IsRegular():
		mode = old.Mode().Perm()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+temporaryInfix+strconv.FormatUint(rand.Uint64(), 10))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	f := &File{File: file, path: path}
	if old != nil && old.Mode().IsRegular() {
		// The umask does not apply to a file that exists.
		if err := f.Chmod(mode); err != nil {
			f.Discard()
			return nil, err
		}
	}
	return f, nil
}

// Commit puts the replacement in the place of the file.
func (f *File) Commit() error {
	// Otherwise a crash of the machine could leave an empty file.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := atomic.ReplaceFile(f.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	return nil
}

// Discard removes the replacement. After Commit has succeeded it does nothing.
func (f *File) Discard() {
	if f.done {
		return
	}
	f.done = true
	_ = f.Close() // Commit may have closed it
	_ = os.Remove(f.Name())
}

// Content replaces the content of a file.
func Content(path string, content []byte, mode fs.FileMode) error {
	f, err := Begin(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Commit()
}

// RemoveTemporaries removes the replacements of a file that processes have left behind when
// they were killed. Another process that writes the same file now fails once.
func RemoveTemporaries(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // there is no such folder yet, or writing will report the error
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path)+temporaryInfix)
		// Otherwise it is a replacement of another file.
		if ok && random != "" && strings.Trim(random, "0123456789") == "" {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
