//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// lockDirectory waits for the lock of a directory and takes it. A file that is replaced
// atomically cannot be locked itself: a waiter would get the lock of the old file.
func lockDirectory(path string) (unlock func() error, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("cannot lock directory %s: %w", path, err)
	}
	return lock.Unlock, nil
}

// keepOwner gives f the owner and the group of the file that it will replace.
func keepOwner(f *os.File, replaced fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	got, ok := info.Sys().(*syscall.Stat_t)
	want, wantOK := replaced.Sys().(*syscall.Stat_t)
	if !ok || !wantOK || got.Uid == want.Uid && got.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("cannot keep the owner of the file: %w", err)
	}
	return nil
}
