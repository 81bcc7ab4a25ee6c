//go:build !unix

package main

// onPipeClosed does nothing: on this system, a closed pipe shows only when something is written.
func onPipeClosed(any, func()) (stop func(), err error) { return func() {}, nil }

func isPipeClosed(error) bool { return false }
