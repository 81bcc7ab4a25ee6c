package server_test

import (
	"testing"
	"time"
)

// unhurried tries something that has to be done within a time. On a machine that is
// too busy for that there is more time at the next attempt; what is wrong stays wrong.
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
