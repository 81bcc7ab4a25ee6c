package client

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/natefinch/atomic"
)

// temporaryInfix is between the name of a file and the random end of the name of its
// replacement: ".state.fanoutd-12345" becomes "state".
const temporaryInfix = ".fanoutd-"

// replaceFile replaces a file as a whole. A file that exists keeps its mode, a new one gets
// 0600.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+temporaryInfix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	defer f.Close() // in vain if it is closed already
	if old, err := os.Stat(path); err == nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	// Otherwise a crash of the machine could leave an empty file.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return atomic.ReplaceFile(f.Name(), path)
}

// removeTemporaries removes the replacements of a file that processes have left behind when
// they were killed. Another process that writes the same file now fails once.
func removeTemporaries(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // there is no such folder yet, or writing will report the error
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path)+temporaryInfix)
		// Otherwise it is a replacement of another file.
		if ok && strings.Trim(random, "0123456789") == "" {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
