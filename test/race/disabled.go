//go:build !race

package race

// Enabled reports whether this test is built with the race detector.
const Enabled = false
