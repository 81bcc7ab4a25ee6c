//go:build !race

package clients

// raceEnabled says that this test is built with the race detector, and so shall
// be what it starts.
const raceEnabled = false
