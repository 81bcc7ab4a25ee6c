package server_test

import (
	"testing"
	"time"
)

// unhurried runs a check that has a time limit. If the check fails, the next attempt
// has twice the time, up to 8 times the first limit: a busy machine then passes, while
// a real fault still fails.
func unhurried(t *testing.T, at time.Duration, try func(*testing.T, time.Duration) error) {
	t.Helper()
	for most := 8 * at; ; at *= 2 {
		err := try(t, at)
		if err == nil {
			return
		}
		if at >= most {
			t.Fatal(err)
		}
		t.Logf("within %v: %v", at, err)
	}
}
