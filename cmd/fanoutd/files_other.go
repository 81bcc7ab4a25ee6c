//go:build !unix

package main

// lockDirectory does nothing: directories cannot be locked on this platform.
func lockDirectory(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}
