//go:build unix

package main

import (
	"fmt"
	"os"

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
