//go:build !unix

package pipe

// OnClosed does nothing: on this system, a closed pipe shows only when something is written.
func OnClosed(any, func()) (stop func(), err error) { return func() {}, nil }

// IsClosed reports whether a write has failed because a pipe has no reader.
func IsClosed(error) bool { return false }
