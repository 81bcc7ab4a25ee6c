//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// lockFolder does nothing: there are no locks of folders.
func lockFolder(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}

// keepOwner does nothing: there are no owners and groups as Unix has them.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
