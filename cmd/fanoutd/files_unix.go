//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// lockFolder waits until nobody else has the lock of a folder, and takes it. A file that
// is replaced as a whole cannot have one of its own: who waited for it would have that of
// a file that is gone.
func lockFolder(path string) (unlock func() error, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("lock the folder %s: %w", path, err)
	}
	return lock.Unlock, nil
}

// keepOwner gives a file to the owner and the group of the one that it is to replace.
func keepOwner(f *os.File, replaced fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, known := info.Sys().(*syscall.Stat_t)
	want, wanted := replaced.Sys().(*syscall.Stat_t)
	if !known || !wanted || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("it would not belong to whom it belongs to now: %w", err)
	}
	return nil
}
