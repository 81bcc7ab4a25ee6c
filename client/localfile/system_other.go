//go:build !unix

package localfile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: files have no Unix owner and group on this platform.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

func explain(_ string, err error) error { return err }
