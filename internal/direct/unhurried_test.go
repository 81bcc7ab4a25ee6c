package direct_test

import (
	"testing"
	"time"
)

// unhurried runs a step that must finish within a time limit: one second at first, and twice
// as long after each failure. A busy machine needs several attempts, and a broken
// implementation fails all of them.
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
