//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns the space that is available to this process on the disk of a directory.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// Full reports whether an operation failed for lack of space.
func Full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// Allocated returns the space that a file occupies, and the identity of the file. Both
// are 0 if there is no file.
func Allocated(path string) (bytes int64, inode uint64) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, 0
	}
	return int64(s.Blocks) * 512, s.Ino
}
