//go:build unix

package main

import (
	"fmt"
	"os"

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
