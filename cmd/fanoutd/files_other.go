//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// lockDirectory does nothing: directories cannot be locked on this platform.
func lockDirectory(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}

// keepOwner does nothing: files have no Unix owner and group on this platform.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
