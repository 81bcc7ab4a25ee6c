//go:build !unix

package app

import "math"

// openFilesLimit returns how many file descriptors the process may have.
func openFilesLimit() (int, error) { return math.MaxInt32, nil }
