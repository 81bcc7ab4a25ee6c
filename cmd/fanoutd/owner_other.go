//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: there are no owners and groups as Unix has them.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
