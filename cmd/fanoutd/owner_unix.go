//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

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
