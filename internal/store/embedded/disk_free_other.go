//go:build !(linux || darwin || freebsd)

package embedded

import "math"

// freeBytes returns a large number because the free space is unknown on this system.
func freeBytes(string) (int64, error) { return math.MaxInt64 / 2, nil }

// isDiskFull reports whether an operation failed for lack of space.
func isDiskFull(error) bool { return false }

// allocatedBytes returns a large number because the allocation is unknown on this system.
func allocatedBytes(string) (bytes int64, inode uint64) { return math.MaxInt64 / 2, 1 }
