//go:build unix

package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

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
		return fmt.Errorf("cannot keep its owner and group (%d:%d): %w", want.Uid, want.Gid, err)
	}
	return nil
}

// explain adds to the error of a rename what to do about it.
func explain(path string, err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%w; if %s is mounted into a container, mount its folder instead", err, path)
	}
	return err
}
