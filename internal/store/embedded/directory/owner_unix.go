//go:build unix

package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// CheckOwner refuses to write, as root, into the data directory of another user, whose server could not read the files.
func CheckOwner(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && s.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d: run this command as that user, with sudo -u '#%d'", dir, s.Uid, s.Uid)
	}
	return nil
}
