//go:build !race

package race

// Enabled says that this test is built with the race detector.
const Enabled = false
