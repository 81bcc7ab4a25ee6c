package main

import "testing"

// An operator who sets the garbage collector gets what the settings mean everywhere else.
func TestSettingsOfTheCollectorWin(t *testing.T) {
	for variable, want := range map[string]bool{
		"GOGC=400":        true,
		"GOGC=off":        true,
		"GOMEMLIMIT=2GiB": true,
		"GOGC=":           false, // as if it were not set
		"GOMAXPROCS=2":    false,
	} {
		if got := setsCollector([]string{"PATH=/bin", variable}); got != want {
			t.Errorf("%s: got %v, want %v", variable, got, want)
		}
	}
}
