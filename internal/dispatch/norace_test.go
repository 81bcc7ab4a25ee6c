//go:build !race

package dispatch_test

// raceEnabled says that everything takes many times as long as it does in truth.
const raceEnabled = false
