package direct_test

import (
	"testing"
	"time"
)

// unhurried tries something that has to be done within a time, which is a second at
// first. On a machine that is too busy for that there is more time at the next
// attempt; what is wrong stays wrong.
func unhurried(t *testing.T, try func(time.Duration) error) {
	t.Helper()
	const most = 16 * time.Second
	for within := time.Second; ; within *= 2 {
		err := try(within)
		if err == nil {
			return
		}
		if within >= most {
			t.Fatal(err)
		}
		t.Logf("within %v: %v", within, err)
	}
}
