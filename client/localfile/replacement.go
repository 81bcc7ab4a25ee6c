package localfile

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/natefinch/atomic"
)

// temporaryInfix is between the name of a file and the random end of the name of its
// replacement: ".state.fanoutd-12345" becomes "state".
const temporaryInfix = ".fanoutd-"

// Replacement is the new content of a file, until Commit or Discard.
type Replacement struct {
	*os.File
	path string
	done bool
}

// Begin creates the replacement of a file beside it, because both must be on the same file
// system. A file that exists keeps its permissions, owner and group. A new one gets mode without
// the bits of the umask.
func Begin(path string, mode fs.FileMode) (*Replacement, error) {
	path, old, err := find(path)
	if err != nil {
		return nil, err
	}
	if old != nil {
		mode = 0o600 // nobody else may read the content before the owner is right
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+temporaryInfix+strconv.FormatUint(rand.Uint64(), 10))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	r := &Replacement{File: file, path: path}
	if old != nil {
		if err := r.inherit(old); err != nil {
			r.Discard()
			return nil, fmt.Errorf("replace %s: %w", path, err)
		}
	}
	return r, nil
}

// inherit gives the replacement the owner, the group and the permissions of the file. The
// umask does not apply to a file that exists.
func (r *Replacement) inherit(old fs.FileInfo) error {
	if err := keepOwner(r.File, old); err != nil {
		return err
	}
	return r.Chmod(old.Mode().Perm())
}

// Commit puts the replacement in the place of the file.
func (r *Replacement) Commit() error {
	// Otherwise a crash of the machine could leave an empty file.
	if err := r.Sync(); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	if err := atomic.ReplaceFile(r.Name(), r.path); err != nil {
		return explain(r.path, err)
	}
	r.done = true
	return nil
}

// Discard removes the replacement. After Commit has succeeded it does nothing.
func (r *Replacement) Discard() {
	if r.done {
		return
	}
	r.done = true
	_ = r.Close() // Commit may have closed it
	_ = os.Remove(r.Name())
}

// Replace replaces the content of a file; see [Begin].
func Replace(path string, content []byte, mode fs.FileMode) error {
	r, err := Begin(path, mode)
	if err != nil {
		return err
	}
	defer r.Discard()
	if _, err := r.Write(content); err != nil {
		return err
	}
	return r.Commit()
}

// RemoveTemporaries removes the replacements of a file that processes have left behind when
// they were killed. Another process that writes the same file now fails once.
func RemoveTemporaries(path string) {
	path = Target(path)
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
