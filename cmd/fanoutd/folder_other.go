//go:build !unix

package main

// lockFolder does nothing: there are no locks of folders.
func lockFolder(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}
