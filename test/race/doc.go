// Package race reports whether a test is built with the race detector. With it, everything
// is many times slower and larger, and programs that the test builds should also have the
// detector.
package race
