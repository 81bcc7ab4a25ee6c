//go:build race

package server_test

// raceEnabled says that everything takes many times as long as it does in truth.
const raceEnabled = true
