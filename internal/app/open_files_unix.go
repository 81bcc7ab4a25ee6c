//go:build unix

package app

import (
	"fmt"
	"math"
	"syscall"
)

// openFilesLimit returns how many file descriptors the process may have. The Go runtime has
// raised the limit as far as the system allows.
func openFilesLimit() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)), nil
}
